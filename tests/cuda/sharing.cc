// Objects other than handles that programs share with the CUDA EP, in a whole host: a DLPack tensor in device
// memory of another library, a stream (S4.1), and graphics interop (S1.9). Over the fake driver and on a GPU
// (plugin_test.py and gpu_test.py run it).
//   tenon_cuda_sharing HOST_LIBRARY PLUGIN
#include <tenon/external_handles.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <thread>

#include "conformance/host.h"
#include "conformance/library.h"
#include "ep/cuda/driver/cuda_device.h"
#include "ep/cuda/fake/fake_control.h"
#include "interop/dlpack_types.h"
#include "programs/relu_model.h"

namespace tenon {
namespace {

using conformance::Host;
using conformance::Owned;

constexpr int64_t kCount = 4096;
constexpr size_t kBytes = kCount * sizeof(float);
int complaints = 0;

void expect(bool good, const std::string& what) {
  std::printf("%s: %s\n", good ? "passed" : "FAILED", what.c_str());
  if (!good) ++complaints;
}

int deleted = 0;

// 2 x kCount floats of the "other library" on the device.
Status test_dlpack(Host& host, const cuda::CudaDriver& driver) {
  TENON_TRY_ASSIGN(const auto device, cuda::CudaDevice::open(driver, 0));
  TENON_TRY_ASSIGN(const cuda::ContextScope scope, cuda::ContextScope::enter(*device));
  CUdeviceptr block = 0;
  TENON_CUDA_TRY(driver, MemAlloc, &block, 2 * kBytes);
  std::vector<float> values(2 * kCount, -1.0f);
  for (int64_t i = 0; i < kCount; ++i) values[static_cast<size_t>(i)] = static_cast<float>(i % 101) - 50;
  TENON_CUDA_TRY(driver, MemcpyAsync, block, reinterpret_cast<CUdeviceptr>(values.data()), 2 * kBytes, nullptr);
  TENON_CUDA_TRY(driver, StreamSynchronize, nullptr);

  int64_t count = 2 * kCount;
  DLManagedTensor managed{};
  const int32_t cuda_device = 2;
  std::memcpy(&managed.dl_tensor.device.device_type, &cuda_device, sizeof(cuda_device));
  managed.dl_tensor.data = reinterpret_cast<void*>(static_cast<uintptr_t>(block));
  managed.dl_tensor.ndim = 1;
  managed.dl_tensor.dtype = {.code = kDlpackFloat, .bits = 32, .lanes = 1};
  managed.dl_tensor.shape = &count;
  managed.deleter = [](DLManagedTensor*) { ++deleted; };
  TenonExternalMemoryInfo info{};
  info.kind = TENON_EXTERNAL_MEMORY_DLPACK;
  info.handle.dlpack = &managed;
  {
    TENON_TRY_ASSIGN(const auto importer, host.create_importer());
    managed.dl_tensor.device.device_id = 77;
    const Status refused = host.import_described(importer.get(), info, 2 * kBytes).status();
    expect(
        refused.code() == StatusCode::kUnsupported && refused.message().find("77") != std::string::npos && deleted == 0,
        "another device's tensor is refused: " + refused.message());
    managed.dl_tensor.device.device_id = 0;
    TENON_TRY_ASSIGN(const auto memory, host.import_described(importer.get(), info, 2 * kBytes));
    const int64_t shape[] = {1, kCount};
    TENON_TRY_ASSIGN(const auto x, host.tensor_in(importer.get(), memory.get(), shape));
    TENON_TRY_ASSIGN(const auto y, host.tensor_in(importer.get(), memory.get(), shape, kBytes));
    TENON_TRY_ASSIGN(const auto session, host.create_session(test::relu_model({1, kCount})));
    TENON_TRY(host.run(session.get(), x.get(), y.get()));
    expect(deleted == 0, "the producer waits while the tensor is in use");
  }
  TENON_CUDA_TRY(driver, MemcpyAsync, reinterpret_cast<CUdeviceptr>(values.data()), block, 2 * kBytes, nullptr);
  TENON_CUDA_TRY(driver, StreamSynchronize, nullptr);
  int64_t wrong = 0;
  for (int64_t i = 0; i < kCount; ++i)
    if (values[static_cast<size_t>(kCount + i)] != std::max(values[static_cast<size_t>(i)], 0.0f)) ++wrong;
  expect(wrong == 0, format("Relu is computed where the tensor lies, {} elements wrong", wrong));
  expect(deleted == 1, format("the producer gets its tensor back once ({})", deleted));
  TENON_CUDA_TRY(driver, MemFree, block);
  return Status();
}

// S4.1: the program destroys its stream, where work is still queued, and then the tensors that a session made there.
Status test_users_stream(Host& host, const cuda::CudaDriver& driver) {
  TENON_TRY_ASSIGN(const auto device, cuda::CudaDevice::open(driver, 0));
  TENON_TRY_ASSIGN(const cuda::ContextScope scope, cuda::ContextScope::enter(*device));
  CUstream stream = nullptr;
  TENON_CUDA_TRY(driver, StreamCreateWithPriority, &stream, CU_STREAM_NON_BLOCKING, 0);
  const OrtApi& api = host.api();
  const auto answer = [&](OrtStatus* status, const char* what) {
    return conformance::to_status(host.take(status), what);
  };
  TENON_TRY_ASSIGN(auto session,
                   host.create_session(test::relu_model({1, kCount}),
                                       {{"user_compute_stream", std::to_string(reinterpret_cast<uintptr_t>(stream))}}));
  std::vector<float> values(kCount, -2.0f);
  values[0] = 3;
  const int64_t shape[] = {1, kCount};
  TENON_TRY_ASSIGN(const auto x, host.tensor_over(values, shape));
  OrtIoBinding* bound = nullptr;
  TENON_TRY(answer(api.CreateIoBinding(session.get(), &bound), "CreateIoBinding"));
  auto binding = host.own(bound, api.ReleaseIoBinding);
  TENON_TRY(answer(api.BindInput(bound, "x", x.get()), "BindInput"));
  TENON_TRY(
      answer(api.BindOutputToDevice(bound, "y", api.EpDevice_MemoryInfo(host.device(), OrtDeviceMemoryType_DEFAULT)),
             "BindOutputToDevice"));
  TENON_TRY(answer(api.RunWithBinding(session.get(), nullptr, bound), "RunWithBinding"));
  OrtAllocator* allocator = nullptr;
  TENON_TRY(answer(api.GetAllocatorWithDefaultOptions(&allocator), "GetAllocatorWithDefaultOptions"));
  OrtValue** outputs = nullptr;
  size_t count = 0;
  TENON_TRY(answer(api.GetBoundOutputValues(bound, allocator, &outputs, &count), "GetBoundOutputValues"));
  auto y = host.own(count == 1 ? outputs[0] : nullptr, api.ReleaseValue);
  allocator->Free(allocator, outputs);
  void* data = nullptr;
  TENON_TRY(answer(api.GetTensorMutableData(y.get(), &data), "GetTensorMutableData"));
  TENON_CUDA_TRY(driver, MemcpyAsync, reinterpret_cast<CUdeviceptr>(values.data()), reinterpret_cast<CUdeviceptr>(data),
                 kBytes, stream);
  TENON_CUDA_TRY(driver, StreamSynchronize, stream);
  expect(values[0] == 3 && values[1] == 0, "a session computes on the program's stream");
  const auto nap = [](void*) { std::this_thread::sleep_for(std::chrono::milliseconds(50)); };
  TENON_CUDA_TRY(driver, LaunchHostFunc, stream, nap, nullptr);
  binding = nullptr;
  session = nullptr;
  TENON_CUDA_TRY(driver, StreamDestroy, stream);
  y = nullptr;
  TENON_TRY_ASSIGN(const auto after, host.create_session(test::relu_model({1, kCount})));
  expect(after != nullptr, "the program's stream may go before the tensors that were made there");
  return Status();
}

// `fake`: null on a GPU, where the device says what it can.
Status test_graphics(Host& host, const cuda::fake::FakeControl* fake) {
  if (host.version() < 25) return Status();
  const OrtInteropApi& interop = host.interop();
  int queue = 0;
  OrtGraphicsInteropConfig config{};
  config.version = host.version();
  config.graphics_api = ORT_GRAPHICS_API_D3D12;
  config.command_queue = &queue;
  const auto init = [&] { return host.take(interop.InitGraphicsInteropForEpDevice(host.device(), &config)); };
  const auto deinit = [&] { return host.take(interop.DeinitGraphicsInteropForEpDevice(host.device())); };
  auto outcome = init();
  expect(outcome.code == ORT_NOT_IMPLEMENTED && outcome.message.find("D3D12") != std::string::npos,
         "a device without graphics contexts says so: " + outcome.text());
  config.graphics_api = ORT_GRAPHICS_API_VULKAN;
  outcome = init();
  expect(outcome.code == ORT_NOT_IMPLEMENTED && outcome.message.find("Vulkan") != std::string::npos,
         "for Vulkan too: " + outcome.text());
  expect(deinit().ok() && deinit().ok(), "an end without a beginning does nothing");
  if (fake == nullptr) return Status();
  fake->show_graphics();
  config.graphics_api = ORT_GRAPHICS_API_D3D12;
  outcome = init();
  expect(outcome.ok() && fake->graphics_contexts() == 1,
         "the device's context is made inside the queue's: " + outcome.text());
  expect(!init().ok() && fake->graphics_contexts() == 1, "a second beginning is refused");
  {
    TENON_TRY_ASSIGN(const auto stream, host.create_stream());
    TENON_TRY_ASSIGN(const auto session, host.create_session(test::relu_model({1, kCount})));
    outcome = deinit();
    const bool as_expected = host.is_tenon() ? outcome.code == ORT_INVALID_ARGUMENT : outcome.ok();
    expect(as_expected && fake->graphics_contexts() == 1, "whoever is inside keeps the context: " + outcome.text());
    expect(host.wait_for(stream.get()).ok(), "and its streams go on");
  }
  expect(deinit().ok() && fake->graphics_contexts() == 0, "the context ends with its last user");
  TENON_TRY_ASSIGN(const auto stream, host.create_stream());
  outcome = init();
  const char* says = host.is_tenon() ? "made so far: 1 stream(s)" : "in use already";
  expect(outcome.code == ORT_INVALID_ARGUMENT && outcome.message.find(says) != std::string::npos,
         "a device in use is refused: " + outcome.text());
  return Status();
}

Status test_all(const char* library, const char* plugin) {
  const auto driver = cuda::cuda_driver();
  if (!driver.ok()) return driver.status();
  void* const fake = conformance::loaded_library("libcuda.so.1");
  const auto* control =
      fake == nullptr
          ? nullptr
          : static_cast<const cuda::fake::FakeControl*>(conformance::library_symbol(fake, cuda::fake::kFakeControl));
  TENON_TRY_ASSIGN(const auto host, Host::load({.library = library, .plugin_name = "cuda", .plugin_library = plugin}));
  std::printf("%s\n", host->description().c_str());
  TENON_TRY(test_graphics(*host, control));
  TENON_TRY(test_users_stream(*host, **driver));
  return test_dlpack(*host, **driver);
}

}  // namespace
}  // namespace tenon

int main(int argc, char** argv) {
  if (argc != 3) {
    std::fprintf(stderr, "usage: %s HOST_LIBRARY PLUGIN\n", argv[0]);
    return 2;
  }
  const tenon::Status status = tenon::test_all(argv[1], argv[2]);
  if (!status.ok()) std::printf("FAILED: %s\n", status.to_string().c_str());
  return status.ok() && tenon::complaints == 0 ? 0 : 1;
}
