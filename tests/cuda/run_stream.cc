// Runs on a stream of the program's (RunOptionsSetSyncStream) of sessions whose work goes to another stream: a unified
// one, the program's own, or the one of an external allocator. Over the fake driver and on a GPU (plugin_test.py and
// gpu_test.py run it).
//   tenon_cuda_run_stream HOST_LIBRARY PLUGIN [--vulkan-gpu | --no-semaphore]
// The run's stream is held shut, by a semaphore or by a function of the host, before it fills the input: a result of
// the old input is work that began too early. The session's stream is held shut in turn: then what the run's stream
// does behind the run has to wait. With --vulkan-gpu the semaphore is one of the Vulkan driver's; with --no-semaphore,
// for a GPU without Vulkan, there is none.
#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <functional>
#include <future>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/format.h"
#include "conformance/host.h"
#include "ep/cuda/driver/cuda_device.h"
#include "other_program.h"
#include "own_allocator.h"
#include "programs/relu_model.h"

namespace tenon {
namespace {

using conformance::Host;
using conformance::Owned;
using test::OtherProgram;
using test::OwnAllocator;
using Options = std::map<std::string, std::string>;

constexpr int64_t kCount = 4096;
constexpr size_t kBytes = kCount * sizeof(float);
constexpr auto kShut = std::chrono::milliseconds(10);
constexpr auto kLong = std::chrono::milliseconds(5000);
constexpr float kNothing = 12345;
int complaints = 0;

void expect(bool good, const std::string& what) {
  std::printf("%s: %s\n", good ? "passed" : "FAILED", what.c_str());
  std::fflush(stdout);
  if (!good) ++complaints;
}

// Holds a stream shut by a function of the host.
class Gate {
 public:
  Status shut(const cuda::CudaDriver& driver, CUstream stream) {
    TENON_CUDA_TRY(
        driver, LaunchHostFunc, stream, [](void* gate) { static_cast<Gate*>(gate)->opened_.get_future().wait(); },
        this);
    return Status();
  }
  // The stream must have passed the gate before it goes.
  void open() { opened_.set_value(); }

 private:
  std::promise<void> opened_;
};

// Calls `open` when the caller is done with its part, or when it takes longer than it should, and says which.
class Opener {
 public:
  Opener(std::chrono::milliseconds patience, std::function<void()> open)
      : thread_([this, patience, open = std::move(open)] {
          const auto end = std::chrono::steady_clock::now() + patience;
          while (!returned_ && std::chrono::steady_clock::now() < end)
            std::this_thread::sleep_for(std::chrono::milliseconds(1));
          in_time_ = returned_;
          std::this_thread::sleep_for(kShut);
          open();
        }) {}
  void returned() { returned_ = true; }
  bool in_time() {
    thread_.join();
    return in_time_;
  }

 private:
  std::atomic<bool> returned_ = false;
  bool in_time_ = false;
  std::thread thread_;
};

struct Model {
  std::vector<std::string> ops;
  float (*result)(float x);
  // Whether one node of the EP is all of it, so that an asynchronous run returns at once.
  bool on_device;
  std::chrono::milliseconds patience() const { return on_device ? kLong : kShut; }
};

class RunStream {
 public:
  // `other`: null for no semaphore.
  RunStream(Host& host, const cuda::CudaDriver& driver, OtherProgram* other)
      : host_(host), driver_(driver), other_(other) {}

  Status open() {
    TENON_TRY_ASSIGN(device_, cuda::CudaDevice::open(driver_, 0));
    TENON_TRY_ASSIGN(const auto scope, cuda::ContextScope::enter(*device_));
    if (other_ != nullptr) {
      TENON_TRY_ASSIGN(importer_, host_.create_importer());
      TENON_TRY_ASSIGN(semaphore_,
                       host_.import_semaphore(importer_.get(), ORT_EXTERNAL_SEMAPHORE_VK_TIMELINE_SEMAPHORE_OPAQUE_FD,
                                              reinterpret_cast<void*>(static_cast<intptr_t>(other_->timeline_fd()))));
      other_->timeline_is_taken();
    }
    TENON_TRY_ASSIGN(stream_, host_.create_stream());
    native_ = static_cast<CUstream>(host_.api().SyncStream_GetHandle(stream_.get()));
    TENON_CUDA_TRY(driver_, StreamCreateWithPriority, &users_, CU_STREAM_NON_BLOCKING, 0);
    for (CUdeviceptr* memory : {&x_, &y_}) TENON_CUDA_TRY(driver_, MemAlloc, memory, kBytes);
    for (float** memory : {&from_, &to_})
      TENON_CUDA_TRY(driver_, MemHostAlloc, reinterpret_cast<void**>(memory), kBytes, CU_MEMHOSTALLOC_PORTABLE);
    return Status();
  }

  Status close() {
    stream_ = nullptr;
    semaphore_ = nullptr;
    importer_ = nullptr;
    TENON_TRY_ASSIGN(const auto scope, cuda::ContextScope::enter(*device_));
    TENON_CUDA_TRY(driver_, StreamDestroy, users_);
    for (CUdeviceptr memory : {x_, y_}) TENON_CUDA_TRY(driver_, MemFree, memory);
    for (float* memory : {from_, to_}) TENON_CUDA_TRY(driver_, MemFreeHost, memory);
    return Status();
  }

  Options users_stream() const { return {{"user_compute_stream", format("{}", reinterpret_cast<uintptr_t>(users_))}}; }

  Status test(const std::string& name, const Model& model, const Options& options) {
    TENON_TRY_ASSIGN(const auto scope, cuda::ContextScope::enter(*device_));
    TENON_TRY_ASSIGN(const auto session, host_.create_session(test::chain_model(model.ops, {1, kCount}), options));
    OrtSession* const made = session.get();
    const bool users = options.contains("user_compute_stream");
    // The same bindings each time: queued, captured, launched.
    for (int turn = 0; turn < 4; ++turn) {
      const std::string where = format("{} {}, turn {}: ", name, model.ops.size(), turn);
      if (turn == 0) {
        // The driver loads code only when no stream waits.
        TENON_TRY(fill_and_run(made, model, false));
        TENON_TRY(check(model, where + "without a wait"));
      }
      if (other_ != nullptr) TENON_TRY(held_by_a_semaphore(made, model, where));
      TENON_TRY(held_by_the_host(made, model, where));
      if (users) TENON_TRY(session_held(made, model, where));
    }
    return from_host_memory(made, model, name);
  }

 private:
  Status answer(OrtStatus* status, const char* what) { return conformance::to_status(host_.take(status), what); }

  Result<Owned<OrtValue>> tensor(CUdeviceptr memory) {
    const OrtMemoryInfo* info = host_.api().EpDevice_MemoryInfo(host_.device(), OrtDeviceMemoryType_DEFAULT);
    OrtValue* value = nullptr;
    TENON_TRY(answer(host_.api().CreateTensorWithDataAsOrtValue(info, reinterpret_cast<void*>(memory), kBytes, kShape,
                                                                2, ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT, &value),
                     "CreateTensorWithDataAsOrtValue"));
    return host_.own(value, host_.api().ReleaseValue);
  }

  Result<Owned<OrtRunOptions>> run_options(bool synchronous) {
    OrtRunOptions* raw = nullptr;
    TENON_TRY(answer(host_.api().CreateRunOptions(&raw), "CreateRunOptions"));
    auto options = host_.own(raw, host_.api().ReleaseRunOptions);
    if (!synchronous) {
      TENON_TRY(answer(host_.api().AddRunConfigEntry(raw, "disable_synchronize_execution_providers", "1"),
                       "AddRunConfigEntry"));
    }
    host_.api().RunOptionsSetSyncStream(raw, stream_.get());
    return options;
  }

  // On the run's stream: a new input, the run, its output into host memory.
  Status fill_and_run(OrtSession* session, const Model& model, bool synchronous) {
    ++seed_;
    for (int64_t i = 0; i < kCount; ++i) from_[i] = static_cast<float>((i + 31 * seed_) % 101) - 50;
    std::fill_n(to_, kCount, kNothing);
    TENON_CUDA_TRY(driver_, MemcpyAsync, x_, reinterpret_cast<CUdeviceptr>(from_), kBytes, native_);
    TENON_CUDA_TRY(driver_, MemsetD8Async, y_, 0, kBytes, native_);
    TENON_TRY_ASSIGN(const auto x, tensor(x_));
    TENON_TRY_ASSIGN(const auto y, tensor(y_));
    TENON_TRY_ASSIGN(const auto options, run_options(synchronous || !model.on_device));
    TENON_TRY(host_.run(session, x.get(), y.get(), options.get()));
    TENON_CUDA_TRY(driver_, MemcpyAsync, reinterpret_cast<CUdeviceptr>(to_), y_, kBytes, native_);
    return Status();
  }

  Status check(const Model& model, const std::string& what) {
    TENON_TRY(host_.wait_for(stream_.get()));
    int64_t wrong = 0;
    for (int64_t i = 0; i < kCount; ++i)
      if (to_[i] != model.result(from_[i])) ++wrong;
    expect(wrong == 0, format("{}, {} elements wrong", what, wrong));
    return Status();
  }

  Status held_by_a_semaphore(OrtSession* session, const Model& model, const std::string& where) {
    const uint64_t value = ++value_;
    TENON_TRY(answer(host_.interop().WaitSemaphore(importer_.get(), semaphore_.get(), stream_.get(), value),
                     "WaitSemaphore"));
    Opener opener(model.patience(), [&] { other_->signal(static_cast<uint8_t>(value)); });
    return held(session, model, where + "behind a semaphore", opener);
  }

  Status held_by_the_host(OrtSession* session, const Model& model, const std::string& where) {
    Gate gate;
    TENON_TRY(gate.shut(driver_, native_));
    Opener opener(model.patience(), [&] { gate.open(); });
    TENON_TRY(held(session, model, where + "behind the host", opener));
    return Status();
  }

  Status held(OrtSession* session, const Model& model, const std::string& what, Opener& opener) {
    const Status queued = fill_and_run(session, model, false);
    opener.returned();
    const bool in_time = opener.in_time();
    TENON_TRY(queued);
    if (model.on_device) expect(in_time, what + ", the run returns before");
    return check(model, what);
  }

  // The program's stream is the session's, and held shut: what the run's stream does next waits for the run.
  Status session_held(OrtSession* session, const Model& model, const std::string& where) {
    Gate gate;
    TENON_TRY(gate.shut(driver_, users_));
    Opener opener(model.patience(), [&] { gate.open(); });
    return held(session, model, where + "the session's stream is shut", opener);
  }

  // The host copies to the device and back, on the run's stream.
  Status from_host_memory(OrtSession* session, const Model& model, const std::string& name) {
    for (int turn = 0; turn < 3; ++turn) {
      Gate gate;
      TENON_TRY(gate.shut(driver_, native_));
      Opener opener(kShut, [&] { gate.open(); });
      std::vector<float> values(kCount);
      for (int64_t i = 0; i < kCount; ++i)
        values[static_cast<size_t>(i)] = static_cast<float>((i * 7 + turn) % 67) - 33;
      TENON_TRY_ASSIGN(const auto x, host_.tensor_over(values, kShape));
      TENON_TRY_ASSIGN(const auto options, run_options(true));
      auto y = host_.run_for_output(session, x.get(), options.get());
      opener.returned();
      (void)opener.in_time();
      TENON_TRY(host_.wait_for(stream_.get()));
      TENON_TRY(y.status());
      void* data = nullptr;
      TENON_TRY(answer(host_.api().GetTensorMutableData(y->get(), &data), "GetTensorMutableData"));
      int64_t wrong = 0;
      for (int64_t i = 0; i < kCount; ++i)
        if (static_cast<const float*>(data)[i] != model.result(values[static_cast<size_t>(i)])) ++wrong;
      expect(wrong == 0, format("{} {}, from host memory: {} elements wrong", name, model.ops.size(), wrong));
    }
    return Status();
  }

  static constexpr int64_t kShape[] = {1, kCount};
  Host& host_;
  const cuda::CudaDriver& driver_;
  OtherProgram* const other_;
  std::shared_ptr<cuda::CudaDevice> device_;
  Owned<OrtExternalResourceImporter> importer_;
  Owned<OrtExternalSemaphoreHandle> semaphore_;
  Owned<OrtSyncStream> stream_;
  CUstream native_ = nullptr, users_ = nullptr;
  CUdeviceptr x_ = 0, y_ = 0;
  float *from_ = nullptr, *to_ = nullptr;
  int64_t seed_ = 0;
  uint64_t value_ = 0;
};

Options joined(Options options, const Options& more) {
  options.insert(more.begin(), more.end());
  return options;
}

Status test_all(const char* library, const char* plugin, OtherProgram* other) {
  TENON_TRY_ASSIGN(const cuda::CudaDriver* const driver, cuda::cuda_driver());
  TENON_TRY_ASSIGN(const auto host, Host::load({.library = library, .plugin_name = "cuda", .plugin_library = plugin}));
  std::printf("%s\n", host->description().c_str());
  TENON_TRY(OwnAllocator::use(*driver));
  RunStream runs(*host, *driver, other);
  TENON_TRY(runs.open());
  const Model relu{.ops = {"Relu"}, .result = [](float x) { return std::max(x, 0.0F); }, .on_device = true};
  // Over the fake driver Neg and Abs run on the CPU EP, so that there are copies within the run.
  const Model mixed{
      .ops = {"Relu", "Neg", "Abs", "Relu"}, .result = [](float x) { return std::max(x, 0.0F); }, .on_device = false};
  const Options unified = {{"use_ep_level_unified_stream", "1"}};
  const Options copies_apart = {{"do_copy_in_default_stream", "0"}};
  const Options graphs = {{"enable_cuda_graph", "1"}}, no_graphs = {{"enable_cuda_graph", "0"}};
  const std::pair<const char*, Options> rows[] = {
      {"the run's stream", {}},
      {"unified", unified},
      {"unified, graphs at once", joined(unified, graphs)},
      {"unified, no graphs", joined(unified, no_graphs)},
      {"unified, copies on their own stream", joined(unified, copies_apart)},
      {"unified, with a limit", joined(unified, {{"gpu_mem_limit", "100000000"}})},
      {"the program's stream", runs.users_stream()},
      {"the program's stream, graphs at once", joined(runs.users_stream(), graphs)},
      {"the default stream", {{"has_user_compute_stream", "1"}}},
      {"an external allocator", OwnAllocator::options<0>()},
      {"an external allocator, copies on their own stream", joined(OwnAllocator::options<0>(), copies_apart)},
  };
  for (const auto& [name, options] : rows)
    for (const Model& model : {relu, mixed}) TENON_TRY_CONTEXT(runs.test(name, model, options), "with {}", name);
  expect(OwnAllocator::live(0) == 0 && OwnAllocator::taken(0) > 0 && OwnAllocator::wrong() == 0,
         format("the external allocator has all of its {} blocks again", OwnAllocator::taken(0)));
  OwnAllocator::end();
  return runs.close();
}

}  // namespace
}  // namespace tenon

int main(int argc, char** argv) {
  const std::string option = argc == 4 ? argv[3] : "";
  if (argc < 3 || argc > 4 || (argc == 4 && option != "--vulkan-gpu" && option != "--no-semaphore")) {
    std::fprintf(stderr, "usage: %s HOST_LIBRARY PLUGIN [--vulkan-gpu | --no-semaphore]\n", argv[0]);
    return 2;
  }
  std::unique_ptr<tenon::test::OtherProgram> other;
  tenon::Status status;
  if (option != "--no-semaphore") {
    auto started = tenon::test::OtherProgram::start(option == "--vulkan-gpu");
    if (started.ok()) other = *std::move(started);
    status = started.status();
  }
  if (status.ok()) status = tenon::test_all(argv[1], argv[2], other.get());
  if (!status.ok()) std::printf("FAILED: %s\n", status.to_string().c_str());
  return status.ok() && tenon::complaints == 0 ? 0 : 1;
}
