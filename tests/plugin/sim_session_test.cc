// The simulated EP's plugin through the C++ API: copies in the ledger and in explain, results of whole models, and
// imports.
#include <dlfcn.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <tenon/dlpack.h>
#include <tenon/ep.h>
#include <tenon/importer.h>
#include <tenon/session.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>

#include "base/testing.h"
#include "ep/sim/sim_test_api.h"
#include "interop/handle_testing.h"
#include "programs/relu_model.h"
#include "tests/api/onnx_builder.h"

namespace tenon {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

constexpr const char* kEp = "TenonSimExecutionProvider";
// Abs is an operator that the simulated EP does not have.
const std::vector<std::string> kMixed = {"Abs", "Neg", "Abs", "Neg", "Abs"};

class SimSession : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    const char* plugin = std::getenv("TENON_SIM_PLUGIN");
    ASSERT_NE(plugin, nullptr);
    ASSERT_THAT(register_ep_library("sim", plugin), is_ok());
  }
  static void TearDownTestSuite() { EXPECT_THAT(unregister_ep_library("sim"), is_ok()); }

  // `device`: 0 has HOST_ACCESSIBLE memory, 1 has none.
  static std::shared_ptr<Session> load(const std::vector<std::string>& ops, size_t device,
                                       const std::string& mode = "compile") {
    const auto bytes = test::chain_model(ops, {4});
    auto session = Session::load_from_bytes(
        bytes, {.threads = 1, .eps = {{.ep_name = kEp, .options = {{"mode", mode}}, .devices = {device}}}});
    EXPECT_THAT(session, is_ok());
    return session.ok() ? *session : nullptr;
  }

  static Tensor floats(const std::vector<float>& values) {
    Tensor tensor = Tensor::allocate(DataType::kFloat, {static_cast<int64_t>(values.size())}).value();
    std::copy(values.begin(), values.end(), tensor.data_as<float>());
    return tensor;
  }
  static std::vector<float> values_of(const Tensor& tensor) {
    Tensor host = Tensor::allocate(tensor.type(), tensor.shape()).value();
    EXPECT_THAT(copy(host, tensor), is_ok());
    return {host.data_as<float>(), host.data_as<float>() + tensor.shape().element_count()};
  }
  static std::vector<std::string> copies(const RunReport& report) {
    std::vector<std::string> texts;
    for (const CopyRecord& record : report.copies.records)
      texts.push_back(record.what + std::string(" to ") + record.target.to_string() + ": " +
                      std::string(copy_reason_name(record.reason)));
    return texts;
  }
};

// S3.3, S6.1: a chain that changes the EP four times moves no byte when they share memory.
TEST_F(SimSession, SharedMemoryMeansNoCopies) {
  for (const char* mode : {"compile", "kernels"}) {
    const auto session = load(kMixed, 0, mode);
    ASSERT_NE(session, nullptr);
    EXPECT_THAT(session->explain({}).value(), AllOf(HasSubstr("host_accessible"), Not(HasSubstr("copy:"))));
    Binding binding = session->make_binding().value();
    ASSERT_THAT(binding.bind_input("x", floats({-2, 8, -18, 1})), is_ok());
    RunReport report;
    for (int turn = 0; turn < 3; ++turn) {
      ASSERT_THAT(session->run(binding, {.report = &report}), is_ok());
      EXPECT_THAT(values_of(binding.output("y")), ElementsAre(2, 8, 18, 1));
      EXPECT_THAT(copies(report), IsEmpty()) << mode;
    }
  }
}

// The same without that allocator: the ledger and explain name the copies that come back, and why.
TEST_F(SimSession, WithoutSharedMemoryTheLedgerNamesEachCopyAndWhy) {
  for (const char* mode : {"compile", "kernels"}) {
    const auto session = load(kMixed, 1, mode);
    ASSERT_NE(session, nullptr);
    EXPECT_THAT(session->explain({}).value(),
                AllOf(HasSubstr("copy: \"v1\", 16 bytes, from cpu to gpu:1 (vendor 0x544e), because"),
                      Not(HasSubstr("host_accessible"))));
    Binding binding = session->make_binding().value();
    ASSERT_THAT(binding.bind_input("x", floats({-2, 8, -18, 1})), is_ok());
    RunReport report;
    for (int turn = 0; turn < 3; ++turn) {
      ASSERT_THAT(session->run(binding, {.report = &report}), is_ok());
      EXPECT_THAT(values_of(binding.output("y")), ElementsAre(2, 8, 18, 1));
      EXPECT_EQ(report.copies.bytes_copied(), 4 * 4 * sizeof(float));
      EXPECT_THAT(copies(report),
                  ElementsAre("v1 to gpu:1 (vendor 0x544e): not_compatible", "v2 to cpu: not_compatible",
                              "v3 to gpu:1 (vendor 0x544e): not_compatible", "v4 to cpu: not_compatible"));
    }
  }
}

// S3.2: what is bound in either kind of the device's memory is used in place, in any mixture.
TEST_F(SimSession, BoundTensorsAreUsedInPlace) {
  const auto session = load({"Neg"}, 0);
  ASSERT_NE(session, nullptr);
  const MemorySpace device = session->input_spaces()[0].space;
  EXPECT_EQ(session->input_spaces()[0].ep_name, kEp);
  EXPECT_EQ(device.kind, MemoryKind::kDefault);
  MemorySpace shared = device;
  shared.kind = MemoryKind::kHostAccessible;
  const Tensor from = floats({1, -2, 3, -4});
  for (const MemorySpace& x_space : {device, shared}) {
    for (const MemorySpace& y_space : {device, shared}) {
      Binding binding = session->make_binding().value();
      const Tensor x = session->allocate(DataType::kFloat, {4}, x_space).value();
      const Tensor y = session->allocate(DataType::kFloat, {4}, y_space).value();
      ASSERT_THAT(copy(x, from), is_ok());
      ASSERT_THAT(binding.bind_input("x", x), is_ok());
      ASSERT_THAT(binding.bind_output("y", y), is_ok());
      RunReport report;
      ASSERT_THAT(session->run(binding, {.report = &report}), is_ok());
      EXPECT_THAT(copies(report), IsEmpty()) << x_space.to_string() << " to " << y_space.to_string();
      EXPECT_EQ(binding.output("y").data(), y.data());
      EXPECT_THAT(values_of(y), ElementsAre(-1, 2, -3, 4));
    }
  }
}

// A feed in plain host memory is a copy that strict mode refuses, with the reason.
TEST_F(SimSession, AFeedInPlainHostMemoryIsACopyThatIsNamed) {
  const auto session = load({"Neg"}, 0);
  ASSERT_NE(session, nullptr);
  Binding binding = session->make_binding().value();
  ASSERT_THAT(binding.bind_input("x", floats({1, -2, 3, -4})), is_ok());
  RunReport report;
  ASSERT_THAT(session->run(binding, {.report = &report}), is_ok());
  ASSERT_EQ(report.copies.records.size(), 1u);
  EXPECT_STREQ(report.copies.records[0].what, "x");
  EXPECT_EQ(report.copies.records[0].reason, CopyReason::kNotCompatible);
}

// Pages that another process could have handed over: what it sees of them, and imports that may not write there.
class ReadOnlyImport : public SimSession {
 protected:
  void SetUp() override {
    const int fd = ::memfd_create("frame", MFD_CLOEXEC);
    ASSERT_GE(fd, 0);
    ASSERT_EQ(::ftruncate(fd, kBytes), 0);
    fd_ = OwnedHandle::take_fd(fd);
    void* view = ::mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    ASSERT_NE(view, MAP_FAILED);
    view_ = static_cast<float*>(view);
    std::copy(kValues.begin(), kValues.end(), view_);
  }
  void TearDown() override {
    if (view_ != nullptr) ::munmap(view_, kBytes);
  }

  Tensor import_for_ep() {
    const auto importer = Importer::create(kEp);
    EXPECT_THAT(importer, is_ok());
    if (!importer.ok()) return {};
    EXPECT_TRUE((*importer)->can_import(ExternalMemoryKind::kMappableFd));
    const auto memory = (*importer)->import_memory(
        fd_, {.kind = ExternalMemoryKind::kMappableFd, .size_bytes = kBytes, .writable = false});
    EXPECT_THAT(memory, is_ok());
    EXPECT_FALSE(fd_.valid());  // the import's now
    if (!memory.ok()) return {};
    auto tensor = ExternalMemory::create_tensor(*memory, DataType::kFloat, {4});
    EXPECT_THAT(tensor, is_ok());
    return tensor.ok() ? *std::move(tensor) : Tensor();
  }
  std::vector<float> seen() const { return {view_, view_ + kValues.size()}; }

  // y = -x or x, by an If; z = 8 x and `all` the states on the way, by a Loop of three iterations that begins with x;
  // `same` stacks x as the body captures it.
  static api_testing::OnnxModel control_flow() {
    using api_testing::OnnxNode;
    api_testing::OnnxModel then_branch, else_branch, body, model;
    then_branch.output("a", DataType::kFloat, {4}).node(OnnxNode("Neg", {"x"}, {"a"}));
    else_branch.output("b", DataType::kFloat, {4}).node(OnnxNode("Identity", {"x"}, {"b"}));
    body.input("i", DataType::kInt64, {}).input("k", DataType::kBool, {}).input("v", DataType::kFloat, {4});
    body.output("d", DataType::kBool, {}).output("r", DataType::kFloat, {4}).output("s", DataType::kFloat, {4});
    body.output("t", DataType::kFloat, {4}).node(OnnxNode("Identity", {"k"}, {"d"}));
    body.node(OnnxNode("Add", {"v", "v"}, {"r"})).node(OnnxNode("Identity", {"r"}, {"s"}));
    body.node(OnnxNode("Identity", {"x"}, {"t"}));
    model.input("c", DataType::kBool, {}).input("x", DataType::kFloat, {4});
    model.output("y", DataType::kFloat, {4}).output("z", DataType::kFloat, {4});
    model.output("all", DataType::kFloat, {3, 4}).output("same", DataType::kFloat, {3, 4});
    model.initializer<int64_t>("n", DataType::kInt64, {}, {3});
    model.node(OnnxNode("If", {"c"}, {"y"})
                   .attribute("then_branch", then_branch.graph_bytes())
                   .attribute("else_branch", else_branch.graph_bytes()));
    return model.node(OnnxNode("Loop", {"n", "", "x"}, {"z", "all", "same"}).attribute("body", body.graph_bytes()));
  }
  void expect_read_by_control_flow(Session& session, const Tensor& x) {
    for (const bool taken : {true, false}) {
      Tensor c = Tensor::allocate(DataType::kBool, {}).value();
      *c.data_as<uint8_t>() = taken ? 1 : 0;
      Binding binding = session.make_binding().value();
      ASSERT_THAT(binding.bind_input("c", c), is_ok());
      ASSERT_THAT(binding.bind_input("x", x), is_ok());
      EXPECT_THAT(binding.bind_output("z", x),
                  has_status(StatusCode::kInvalidArgument, AllOf(HasSubstr("\"z\""), HasSubstr("read-only memory"))));
      ASSERT_THAT(session.run(binding), is_ok());
      EXPECT_THAT(values_of(binding.output("y")), taken ? ElementsAre(-1, 2, -3, 4) : ElementsAre(1, -2, 3, -4));
      EXPECT_THAT(values_of(binding.output("z")), ElementsAre(8, -16, 24, -32));
      EXPECT_THAT(values_of(binding.output("all")), ElementsAre(2, -4, 6, -8, 4, -8, 12, -16, 8, -16, 24, -32));
      EXPECT_THAT(values_of(binding.output("same")), ElementsAre(1, -2, 3, -4, 1, -2, 3, -4, 1, -2, 3, -4));
      for (const char* name : {"y", "z", "all", "same"}) EXPECT_NE(binding.output(name).data(), x.data()) << name;
      EXPECT_EQ(seen(), kValues);
    }
  }

  static constexpr size_t kBytes = 4096;
  const std::vector<float> kValues = {1, -2, 3, -4};
  OwnedHandle fd_;
  float* view_ = nullptr;
};

TEST_F(ReadOnlyImport, OfAnEpIsReadAndNotWritten) {
  const Tensor x = import_for_ep();
  ASSERT_TRUE(x.defined());
  const auto session = load({"Neg"}, 0);
  ASSERT_NE(session, nullptr);
  Binding binding = session->make_binding().value();
  ASSERT_THAT(binding.bind_input("x", x), is_ok());
  EXPECT_THAT(binding.bind_output("y", x), has_status(StatusCode::kInvalidArgument, HasSubstr("read-only memory")));
  EXPECT_THAT(copy(x, floats({9, 9, 9, 9})), has_status(StatusCode::kInvalidArgument, HasSubstr("read-only memory")));
  RunReport report;
  ASSERT_THAT(session->run(binding, {.report = &report}), is_ok());
  EXPECT_THAT(copies(report), IsEmpty());
  EXPECT_THAT(values_of(binding.output("y")), ElementsAre(-1, 2, -3, 4));
  EXPECT_EQ(seen(), kValues);
}

// Bodies run on the CPU EP, with values that the session of the simulated EP has in its device.
TEST_F(ReadOnlyImport, OfAnEpIsReadByBodies) {
  const Tensor x = import_for_ep();
  ASSERT_TRUE(x.defined());
  const auto session = control_flow().load({.threads = 1, .eps = {{.ep_name = kEp, .devices = {0}}}});
  ASSERT_THAT(session, is_ok());
  expect_read_by_control_flow(**session, x);
}

// The pages are mapped for reading alone: a kernel that wrote there would end the process.
TEST_F(ReadOnlyImport, OfTheHostIsReadByBodiesInPlace) {
  auto memory = Importer::host().import_memory(
      fd_, {.kind = ExternalMemoryKind::kMappableFd, .size_bytes = kBytes, .writable = false});
  ASSERT_THAT(memory, is_ok());
  const auto x = ExternalMemory::create_tensor(*memory, DataType::kFloat, {4});
  ASSERT_THAT(x, is_ok());
  const auto session = control_flow().load({.threads = 1});
  ASSERT_THAT(session, is_ok());
  expect_read_by_control_flow(**session, *x);
}

// DLPack has no device for a plugin's memory: a tensor there is refused with its space, and stays as it is.
TEST_F(ReadOnlyImport, OfAnEpIsExportedToDlpackOnlyWhereTheHostReads) {
  const Tensor x = import_for_ep();
  ASSERT_TRUE(x.defined());
  EXPECT_THAT(tensor_to_dlpack(x), has_status(StatusCode::kUnsupported, HasSubstr("needs the versioned")));
  EXPECT_THAT(
      tensor_to_dlpack_versioned(x),
      has_status(StatusCode::kUnsupported, AllOf(HasSubstr(x.space().to_string()), HasSubstr("DLPack has no device"))));
  EXPECT_EQ(values_of(x), kValues);
}

// S1.3 through the C++ API, for every kind and every step of the simulated EP and of the tensor on its import: until
// the import has succeeded, the handle is the caller's.
class FailedImport : public SimSession {
 protected:
  void SetUp() override {
    library_ = ::dlopen(std::getenv("TENON_SIM_PLUGIN"), RTLD_NOW | RTLD_LOCAL);
    ASSERT_NE(library_, nullptr);
    const auto get = reinterpret_cast<TenonSimGetTestApiFn>(::dlsym(library_, "TenonSimGetTestApi"));
    ASSERT_NE(get, nullptr);
    sim_ = get(TENON_SIM_TEST_API_VERSION);
    ASSERT_NE(sim_, nullptr);
  }
  void TearDown() override {
    if (sim_ != nullptr) (void)sim_->fail_at(nullptr, 0);
    if (library_ != nullptr) ::dlclose(library_);
  }

  // Fails step after step of `import` and of `use`, which gets the import, until both succeed. NT handles and IPC
  // handles name `nt`.
  template <typename Row, typename Import, typename Use>
  void walk(const Row& row, uint64_t nt, const Import& import, const Use& use) {
    constexpr bool kIsTimeline = std::is_same_v<Row, TimelineKindRow>;
    int failures = 0;
    for (int nth = 1;; ++nth) {
      ASSERT_LT(nth, 50) << row.name;
      const FdCount fds;
      bool done = false;
      {
        HandleCaller caller(row.type, kIsTimeline, nt);
        const int callers_fds = fds.opened_since();
        ASSERT_EQ(sim_->fail_at(nullptr, nth), 1);
        auto imported = caller.with_owned(import);
        const Status status = imported.ok() ? use(*imported) : imported.status();
        done = sim_->fault_fired() == 0;
        (void)sim_->fail_at(nullptr, 0);
        const std::string where = row.name + (" at fault " + std::to_string(nth)) + ": " + status.message();
        EXPECT_EQ(status.ok(), done) << where;
        if (imported.ok()) {
          caller.expect_owned_as(row.ownership, true, where);
          imported->reset();
          caller.expect_owned_as(row.ownership, false, where);
        } else {
          ++failures;
          caller.expect_untouched(where);
          EXPECT_EQ(fds.opened_since(), callers_fds) << where;
        }
      }
      EXPECT_EQ(fds.opened_since(), 0) << row.name << " at fault " << nth;
      if (done) break;
    }
    EXPECT_GE(failures, 1) << row.name;
  }

  static constexpr size_t kBytes = kHandleBytes;
  void* library_ = nullptr;
  const TenonSimTestApi* sim_ = nullptr;
};

TEST_F(FailedImport, OfMemoryLeavesEveryKindOfHandleToTheCaller) {
  const auto importer = Importer::create(kEp).value();
  const uint64_t nt = sim_->nt_create_memory(kBytes);
  for (const HandleKindRow& row : kHandleKinds) {
    ASSERT_TRUE(importer->can_import(row.kind)) << row.name;
    walk(
        row, nt,
        [&](OwnedHandle& handle) {
          return importer->import_memory(handle, {.kind = row.kind, .size_bytes = kBytes, .name = "x"});
        },
        [](const auto& memory) { return ExternalMemory::create_tensor(memory, DataType::kFloat, {4}, 64).status(); });
  }
  EXPECT_EQ(sim_->nt_close(nt), 1);
}

TEST_F(FailedImport, OfATimelineLeavesEveryKindOfHandleToTheCaller) {
  const auto importer = Importer::create(kEp).value();
  const uint64_t nt = sim_->nt_create_fence(0);
  for (const TimelineKindRow& row : kTimelineKinds) {
    ASSERT_TRUE(importer->can_import(row.kind)) << row.name;
    walk(
        row, nt, [&](OwnedHandle& handle) { return importer->import_timeline(handle, row.kind, "frames"); },
        [](const auto&) { return Status(); });
  }
  EXPECT_EQ(sim_->nt_close(nt), 1);
}

// The bytes behind the handle are the tensor's, also of kinds that are no file descriptor.
TEST_F(FailedImport, NothingFailsAndAnIpcHandleAndADlpackTensorAreReadWhereTheyLie) {
  const auto importer = Importer::create(kEp).value();
  const uint64_t nt = sim_->nt_create_memory(kBytes);
  for (const ExternalMemoryKind kind : {ExternalMemoryKind::kCudaIpc, ExternalMemoryKind::kDlpack}) {
    const bool ipc = kind == ExternalMemoryKind::kCudaIpc;
    HandleCaller caller(ipc ? HandleType::kIpc : HandleType::kDlpack, false, nt);
    auto* const floats = static_cast<float*>(ipc ? sim_->nt_map(nt) : caller.bytes());
    for (int i = 0; i < 4; ++i) floats[16 + i] = static_cast<float>(i + 1);
    const auto memory = caller.with_owned([&](OwnedHandle& handle) {
      return importer->import_memory(handle, {.kind = kind, .size_bytes = kBytes, .name = "x"});
    });
    ASSERT_THAT(memory, is_ok());
    const auto tensor = ExternalMemory::create_tensor(*memory, DataType::kFloat, {4}, 64);
    ASSERT_THAT(tensor, is_ok());
    EXPECT_THAT(values_of(*tensor), ElementsAre(1, 2, 3, 4)) << external_memory_kind_name(kind);
  }
  EXPECT_EQ(sim_->nt_close(nt), 1);
}

// The CPU EP's importer is the host's.
TEST_F(FailedImport, OfTheCpuEpIsOfTheHost) {
  const auto importer = Importer::create("CPUExecutionProvider");
  ASSERT_THAT(importer, is_ok());
  EXPECT_EQ(importer->get(), &Importer::host());
  EXPECT_THAT(Importer::create("NoSuchExecutionProvider"), has_status(StatusCode::kNotFound));
}

}  // namespace
}  // namespace tenon
