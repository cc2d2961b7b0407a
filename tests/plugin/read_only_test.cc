// A READ_ONLY import (TENON_EXTERNAL_MEMORY_READ_ONLY) cannot be written through the host: not as an output, not by a
// copy, not by a mutable pointer. The kinds are those of drivers that protect nothing.
#include <tenon/importer.h>
#include <unistd.h>

#include <cstring>

#include "hosts.h"
#include "programs/relu_model.h"

namespace tenon::hosts {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAreArray;
using ::testing::HasSubstr;

constexpr size_t kBytes = kCount * sizeof(float);

class ReadOnly : public HostTest {
 protected:
  // The other side's memory, and a view of it that may not be written.
  struct Imported {
    std::string name;
    std::unique_ptr<conformance::SharedMemory> memory;  // null: an NT object
    float* view = nullptr;
    Owned<OrtExternalMemoryHandle> handle;
    Owned<OrtValue> tensor;
  };

  Imported import_memfd(Host& from, OrtExternalResourceImporter* importer, const char* name, uint32_t kind,
                        uint32_t flags) {
    Imported made{.name = name};
    auto memory = conformance::memfd_exporter(name, kind)->make(kBytes);
    EXPECT_THAT(memory, is_ok());
    made.memory = *std::move(memory);
    const OrtExternalMemoryDescriptor plain = made.memory->descriptor(from.version());
    TenonExternalMemoryInfo info = {};
    info.kind = kind;
    info.flags = flags;
    info.handle.fd = kind < TENON_EXTERNAL_HANDLE_FIRST
                         ? static_cast<int32_t>(reinterpret_cast<intptr_t>(plain.native_handle))
                         : static_cast<const TenonExternalMemoryInfo*>(plain.native_handle)->handle.fd;
    made.view = reinterpret_cast<float*>(made.memory->view());
    finish(from, importer, info, made);
    if (made.handle != nullptr) made.memory->take_on_success();
    return made;
  }
  Imported import_nt(OrtExternalResourceImporter* importer, const char* name, uint32_t kind) {
    Imported made{.name = name};
    const uint64_t number = host().sim()->nt_create_memory(kBytes);
    made.view = static_cast<float*>(host().sim()->nt_map(number));
    TenonExternalMemoryInfo info = {};
    info.kind = kind;
    info.flags = TENON_EXTERNAL_MEMORY_READ_ONLY;
    if (kind == TENON_EXTERNAL_MEMORY_CUDA_IPC) {
      std::memcpy(info.handle.ipc, &number, sizeof(number));
    } else {
      info.handle.nt_handle = reinterpret_cast<void*>(number);
    }
    finish(host(), importer, info, made);
    return made;
  }
  void finish(Host& from, OrtExternalResourceImporter* importer, const TenonExternalMemoryInfo& info, Imported& made) {
    auto handle = from.import_described(importer, info, kBytes);
    ASSERT_THAT(handle, is_ok()) << made.name;
    made.handle = *std::move(handle);
    const int64_t shape[] = {1, kCount};
    auto tensor = from.tensor_in(importer, made.handle.get(), shape);
    ASSERT_THAT(tensor, is_ok()) << made.name;
    made.tensor = *std::move(tensor);
    for (int64_t i = 0; i < kCount; ++i) made.view[i] = numbers()[static_cast<size_t>(i)];
  }
  auto names(const Imported& imported) {
    return AllOf(HasSubstr("float32 tensor of shape [1,256]"), HasSubstr("read-only import"), HasSubstr(imported.name));
  }
  std::vector<float> seen(const Imported& imported) { return {imported.view, imported.view + kCount}; }

  void expect_not_written(const Imported& imported) {
    OrtValue* const tensor = imported.tensor.get();
    const auto refused = [&] { return has_status(StatusCode::kInvalidArgument, names(imported)); };
    // A copy.
    std::vector<float> ones(kCount, 1.0f);
    const auto source = wrap(ones);
    EXPECT_THAT(copy(source.get(), tensor), refused());
    // A run's output, and an IoBinding's.
    const auto chain = session({"Neg"});
    ASSERT_NE(chain, nullptr);
    OrtValue* out = tensor;
    const Status run_refused = run(chain.get(), source.get(), &out);
    EXPECT_THAT(run_refused, refused());
    EXPECT_THAT(run_refused.message(), HasSubstr("output \"y\""));
    OrtIoBinding* raw = nullptr;
    ASSERT_THAT(ok(api().CreateIoBinding(chain.get(), &raw), "CreateIoBinding"), is_ok());
    const auto binding = host().own(raw, api().ReleaseIoBinding);
    EXPECT_THAT(ok(api().BindOutput(raw, "y", tensor), "BindOutput"), refused());
    // A mutable pointer; one for reading stays.
    void* data = nullptr;
    EXPECT_THAT(ok(api().GetTensorMutableData(tensor, &data), "GetTensorMutableData"), refused());
    EXPECT_EQ(data, nullptr);
    const int64_t first[] = {0, 0};
    EXPECT_THAT(ok(api().TensorAt(tensor, first, 2, &data), "TensorAt"), refused());
    const void* readable = nullptr;
    EXPECT_THAT(ok(api().GetTensorData(tensor, &readable), "GetTensorData"), is_ok());
    EXPECT_NE(readable, nullptr);
    EXPECT_THAT(seen(imported), ElementsAreArray(numbers())) << imported.name;
    // It is an input like any other, and no operator works in it.
    for (const std::vector<std::string>& ops : {std::vector<std::string>{"Neg", "Neg", "Abs"}, {"Neg"}}) {
      const auto reads = session(ops);
      ASSERT_NE(reads, nullptr);
      std::vector<float> result(kCount);
      const auto y = wrap(result);
      out = y.get();
      EXPECT_THAT(run(reads.get(), tensor, &out), is_ok()) << imported.name;
      EXPECT_THAT(result, ElementsAreArray(chain_of(numbers(), ops))) << imported.name;
      EXPECT_THAT(seen(imported), ElementsAreArray(numbers())) << imported.name;
    }
    // The output of a run is no view of it, also where nothing is computed.
    OrtValue* made = nullptr;
    const auto same = host().create_session(test::chain_model({"Identity"}, {1, kCount}));
    ASSERT_THAT(same, is_ok());
    ASSERT_THAT(run(same->get(), tensor, &made), is_ok());
    const auto owned = host().own(made, api().ReleaseValue);
    float* own = this->data(made);
    ASSERT_NE(own, nullptr);
    EXPECT_NE(static_cast<const void*>(own), readable);
  }
};

TEST_F(ReadOnly, AnImportOfAPluginIsNotWritten) {
  use();
  if (!host().is_tenon()) GTEST_SKIP() << "stock hosts do not know the flag";
  const auto importer = host().create_importer();
  ASSERT_THAT(importer, is_ok());
  constexpr uint32_t kFlag = TENON_EXTERNAL_MEMORY_READ_ONLY;
  std::vector<Imported> imports;
  imports.push_back(import_memfd(host(), importer->get(), "opaque_fd", 3, kFlag));
  imports.push_back(import_memfd(host(), importer->get(), "mappable_fd", TENON_EXTERNAL_MEMORY_MAPPABLE_FD, kFlag));
  imports.push_back(import_memfd(host(), importer->get(), "cuda_vmm_fd", TENON_EXTERNAL_MEMORY_CUDA_VMM_FD, kFlag));
  imports.push_back(import_nt(importer->get(), "d3d12_resource", 0));
  imports.push_back(import_nt(importer->get(), "cuda_ipc", TENON_EXTERNAL_MEMORY_CUDA_IPC));
  for (const Imported& imported : imports) {
    ASSERT_NE(imported.tensor, nullptr) << imported.name;
    expect_not_written(imported);
  }
}

// The CPU EP's own importer gives the same answers.
TEST_F(ReadOnly, AnImportOfTheCpuDeviceIsNotWritten) {
  use();
  if (!host().is_tenon()) GTEST_SKIP() << "stock hosts have no importer for the CPU device";
  auto cpu = Host::load({.library = std::getenv("TENON_TEST_HOST"), .ep_name = "CPUExecutionProvider"});
  ASSERT_THAT(cpu, is_ok());
  const auto importer = (*cpu)->create_importer();
  ASSERT_THAT(importer, is_ok());
  const Imported imported = import_memfd(**cpu, importer->get(), "mappable_fd", TENON_EXTERNAL_MEMORY_MAPPABLE_FD,
                                         TENON_EXTERNAL_MEMORY_READ_ONLY);
  ASSERT_NE(imported.tensor, nullptr);
  expect_not_written(imported);
}

// Without the flag nothing changes.
TEST_F(ReadOnly, AWritableImportIsWritten) {
  use();
  if (!host().is_tenon()) GTEST_SKIP() << "covered by tenon conformance";
  const auto importer = host().create_importer();
  ASSERT_THAT(importer, is_ok());
  const Imported imported = import_memfd(host(), importer->get(), "opaque_fd", 3, 0);
  ASSERT_NE(imported.tensor, nullptr);
  std::vector<float> ones(kCount, 1.0f);
  const auto source = wrap(ones);
  EXPECT_THAT(copy(source.get(), imported.tensor.get()), is_ok());
  EXPECT_THAT(seen(imported), ElementsAreArray(ones));
  void* data = nullptr;
  EXPECT_THAT(ok(api().GetTensorMutableData(imported.tensor.get(), &data), "GetTensorMutableData"), is_ok());
}

}  // namespace
}  // namespace tenon::hosts
