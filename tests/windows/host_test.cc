// The CUDA plugin's DLL in stock onnxruntime for Windows, over the fake driver: D3D12 memory and fences by NT handles,
// Vulkan's Win32 kinds, and graphics interop. Everything is named by the environment, as tests/windows/CMakeLists.txt
// and
// ./dev windows set it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <windows.h>

#include <cmath>
#include <cstdlib>
#include <cstring>

#include "base/testing.h"
#include "conformance/host.h"
#include "conformance/library.h"
#include "ep/cuda/fake/fake_control.h"
#include "programs/relu_model.h"

namespace tenon {
namespace {

using conformance::Host;
using conformance::Owned;
using ::testing::HasSubstr;

constexpr int64_t kCount = 3 * 1024;
constexpr size_t kBytes = kCount * sizeof(float);

std::string variable(const char* name) {
  const char* value = std::getenv(name);
  return value != nullptr ? value : "";
}

const cuda::fake::FakeControl& driver() {
  static const auto* control = static_cast<const cuda::fake::FakeControl*>(conformance::library_symbol(
      conformance::open_library(variable("TENON_FAKE_CUDA")).value(), cuda::fake::kFakeControl));
  return *control;
}

// A host finds the functions by these names, and a DLL that meets no host answers without one.
TEST(WindowsPlugin, ShowsWhatHostsLookFor) {
  for (const char* name : {"TENON_CUDA_PLUGIN", "TENON_CUDA_FAKE_PLUGIN"}) {
    const Result<void*> library = conformance::open_library(variable(name));
    ASSERT_THAT(library, is_ok());
    using Create =
        OrtStatus*(ORT_API_CALL*)(const char*, const OrtApiBase*, const OrtLogger*, OrtEpFactory**, size_t, size_t*);
    const auto create = reinterpret_cast<Create>(conformance::library_symbol(*library, "CreateEpFactories"));
    ASSERT_NE(create, nullptr);
    EXPECT_NE(conformance::library_symbol(*library, "ReleaseEpFactory"), nullptr);
    size_t count = 7;
    EXPECT_EQ(create("cuda", nullptr, nullptr, nullptr, 0, &count), nullptr);
    EXPECT_EQ(count, 0U);
  }
}

class WindowsHost : public ::testing::Test {
 protected:
  void SetUp() override {
    const std::string library = variable("TENON_TEST_HOST");
    if (library.empty()) GTEST_SKIP() << "TENON_TEST_HOST names no onnxruntime.dll";
    (void)driver();  // is there before the plugin looks for one
    auto loaded = Host::load({.library = library,
                              .plugin_name = "cuda",
                              .plugin_library = variable("TENON_CUDA_FAKE_PLUGIN"),
                              .ep_name = "TenonCudaExecutionProvider"});
    ASSERT_THAT(loaded, is_ok());
    host_ = *std::move(loaded);
  }
  void open() {
    importer_ = host_->create_importer().value();
    stream_ = host_->create_stream().value();
  }
  Status ok(OrtStatus* status, const char* what) { return conformance::to_status(host_->take(status), what); }

  Result<Owned<OrtExternalMemoryHandle>> import_memory(OrtExternalMemoryHandleType kind, void* handle,
                                                       size_t size_bytes) {
    OrtExternalMemoryDescriptor descriptor{};
    descriptor.version = host_->version();
    descriptor.handle_type = kind;
    descriptor.native_handle = handle;
    descriptor.size_bytes = size_bytes;
    OrtExternalMemoryHandle* memory = nullptr;
    TENON_TRY(ok(host_->interop().ImportMemory(importer_.get(), &descriptor, &memory), "ImportMemory"));
    return host_->own(memory, host_->interop().ReleaseExternalMemoryHandle);
  }

  // Upload by the other API, wait, Relu, signal, readback: S1.7's full inference.
  void infer(OrtExternalMemoryHandleType kind, OrtExternalSemaphoreType type) {
    const OrtInteropApi& interop = host_->interop();
    bool can = false;
    ASSERT_THAT(ok(interop.CanImportMemory(importer_.get(), kind, &can), "CanImportMemory"), is_ok());
    EXPECT_TRUE(can);
    ASSERT_THAT(ok(interop.CanImportSemaphore(importer_.get(), type, &can), "CanImportSemaphore"), is_ok());
    EXPECT_TRUE(can);
    void* const handle = driver().make_nt_memory(2 * kBytes);
    void* const fence_handle = driver().make_nt_fence();
    auto* const shared = reinterpret_cast<float*>(driver().nt_view(handle));
    for (int64_t i = 0; i < kCount; ++i) shared[i] = std::nanf("");
    {
      const auto memory = import_memory(kind, handle, 2 * kBytes);
      ASSERT_THAT(memory, is_ok());
      const auto fence = host_->import_semaphore(importer_.get(), type, fence_handle);
      ASSERT_THAT(fence, is_ok());
      const int64_t shape[] = {1, kCount};
      const auto x = host_->tensor_in(importer_.get(), memory->get(), shape);
      ASSERT_THAT(x, is_ok());
      const auto y = host_->tensor_in(importer_.get(), memory->get(), shape, kBytes);
      ASSERT_THAT(y, is_ok());
      const auto session = host_->create_session(test::relu_model({1, kCount}));
      ASSERT_THAT(session, is_ok());
      ASSERT_THAT(ok(interop.WaitSemaphore(importer_.get(), fence->get(), stream_.get(), 1), "WaitSemaphore"), is_ok());
      // The wait is queued (S1.5): the producer comes after it.
      for (int64_t i = 0; i < kCount; ++i) shared[i] = static_cast<float>(i % 101) - 50;
      driver().signal_nt_fence(fence_handle, 1);
      ASSERT_THAT(host_->wait_for(stream_.get()), is_ok());
      ASSERT_THAT(host_->run(session->get(), x->get(), y->get()), is_ok());
      ASSERT_THAT(ok(interop.SignalSemaphore(importer_.get(), fence->get(), stream_.get(), 2), "SignalSemaphore"),
                  is_ok());
      ASSERT_THAT(host_->wait_for(stream_.get()), is_ok());
      EXPECT_EQ(driver().nt_fence_value(fence_handle), 2U);
      for (int64_t i = 0; i < kCount; ++i)
        ASSERT_EQ(shared[kCount + i], std::max(static_cast<float>(i % 101) - 50, 0.0f)) << i;
    }
    // S2: NT handles stay the caller's.
    EXPECT_TRUE(driver().nt_is_open(handle));
    EXPECT_TRUE(driver().nt_is_open(fence_handle));
    EXPECT_NE(::CloseHandle(handle), 0);
    EXPECT_NE(::CloseHandle(fence_handle), 0);
    EXPECT_THAT(import_memory(kind, handle, kBytes),
                has_status(StatusCode::kInvalidArgument, HasSubstr("native_handle")));
  }

  std::unique_ptr<Host> host_;
  Owned<OrtExternalResourceImporter> importer_;
  Owned<OrtSyncStream> stream_;
};

// S1.7, S2
TEST_F(WindowsHost, InfersOnAD3d12Resource) {
  open();
  infer(ORT_EXTERNAL_MEMORY_HANDLE_TYPE_D3D12_RESOURCE, ORT_EXTERNAL_SEMAPHORE_D3D12_FENCE);
}
TEST_F(WindowsHost, InfersOnAD3d12Heap) {
  open();
  infer(ORT_EXTERNAL_MEMORY_HANDLE_TYPE_D3D12_HEAP, ORT_EXTERNAL_SEMAPHORE_D3D12_FENCE);
}
TEST_F(WindowsHost, InfersOnVulkansWin32Memory) {
  open();
  infer(ORT_EXTERNAL_MEMORY_HANDLE_TYPE_VK_MEMORY_WIN32, ORT_EXTERNAL_SEMAPHORE_VK_TIMELINE_SEMAPHORE_WIN32);
}

// S1.2, S1.3
TEST_F(WindowsHost, RefusesWhatThisSystemDoesNotHave) {
  open();
  bool can = true;
  ASSERT_THAT(
      ok(host_->interop().CanImportMemory(importer_.get(), ORT_EXTERNAL_MEMORY_HANDLE_TYPE_VK_MEMORY_OPAQUE_FD, &can),
         "CanImportMemory"),
      is_ok());
  EXPECT_FALSE(can);
  EXPECT_THAT(import_memory(ORT_EXTERNAL_MEMORY_HANDLE_TYPE_VK_MEMORY_OPAQUE_FD, reinterpret_cast<void*>(3), kBytes),
              has_status(StatusCode::kUnsupported));
  EXPECT_THAT(import_memory(ORT_EXTERNAL_MEMORY_HANDLE_TYPE_D3D12_RESOURCE, nullptr, kBytes),
              has_status(StatusCode::kInvalidArgument));
  void* const handle = driver().make_nt_memory(kBytes);
  EXPECT_THAT(import_memory(ORT_EXTERNAL_MEMORY_HANDLE_TYPE_D3D12_RESOURCE, handle, 2 * kBytes),
              has_status(StatusCode::kInvalidArgument));
  EXPECT_TRUE(driver().nt_is_open(handle));
}

// S1.9: before anybody uses the device; a second one is refused, the end is idempotent, and a device in use says so.
TEST_F(WindowsHost, GraphicsInteropBeginsBeforeTheFirstUse) {
  if (host_->version() < 25) GTEST_SKIP() << "the functions came with API 25";
  driver().show_graphics();
  const OrtInteropApi& interop = host_->interop();
  int queue = 0;
  OrtGraphicsInteropConfig config{};
  config.version = host_->version();
  config.graphics_api = ORT_GRAPHICS_API_D3D12;
  const auto init = [&] { return ok(interop.InitGraphicsInteropForEpDevice(host_->device(), &config), "Init"); };
  const auto deinit = [&] { return ok(interop.DeinitGraphicsInteropForEpDevice(host_->device()), "Deinit"); };
  EXPECT_THAT(init(), has_status(StatusCode::kInvalidArgument, HasSubstr("command_queue")));
  config.command_queue = &queue;
  ASSERT_THAT(init(), is_ok());
  EXPECT_EQ(driver().graphics_contexts(), 1U);
  EXPECT_FALSE(init().ok());
  open();
  infer(ORT_EXTERNAL_MEMORY_HANDLE_TYPE_D3D12_RESOURCE, ORT_EXTERNAL_SEMAPHORE_D3D12_FENCE);
  // Whoever is inside keeps the context.
  ASSERT_THAT(deinit(), is_ok());
  ASSERT_THAT(deinit(), is_ok());
  EXPECT_EQ(driver().graphics_contexts(), 1U);
  stream_ = nullptr;
  importer_ = nullptr;
  EXPECT_EQ(driver().graphics_contexts(), 0U);
  open();
  EXPECT_THAT(init(), has_status(StatusCode::kInvalidArgument, HasSubstr("in use already")));
}

}  // namespace
}  // namespace tenon
