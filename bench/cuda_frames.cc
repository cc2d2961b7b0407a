// Measures frames that Vulkan writes, CUDA works on in place, and Vulkan reads again, and the same with copies.
//   cuda_frames HOST_LIBRARY CUDA_PLUGIN [--frames N] [--beside OTHER_HOST_LIBRARY]
// One JSON line for each host, way and size: p50 and p99 of a frame, and how the calling thread's time to submit the
// CUDA part is spread, with the median of each of the five rounds. Two hosts take turns in one process.
//   bare      wait and signal through the driver, no work between them
//   kernel    the same around one kernel that touches every element in place
//   session   WaitSemaphore, Run (Relu, from this buffer into another one of Vulkan's), SignalSemaphore through the
//             host's C ABI
//   folded    one Run with its fences in run entries (Tenon's host only): one graph launch
//   copied    readback, upload, the kernel, readback, upload
#include <time.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <utility>

#include "../tests/interop/vulkan_program.h"
#include "base/deadline.h"
#include "conformance/host.h"
#include "ep/cuda/cuda_importer.h"
#include "ep/cuda/driver/nvrtc.h"
#include "programs/relu_model.h"

namespace {

using namespace tenon;        // NOLINT(google-build-using-namespace)
using namespace tenon::cuda;  // NOLINT(google-build-using-namespace)
using conformance::Host;
using conformance::Owned;
using test::VulkanBuffer;
using test::VulkanProgram;

constexpr const char* kKernel = R"(
extern "C" __global__ void relu(float* x, unsigned long long count) {
  for (unsigned long long i = blockIdx.x * 1ull * blockDim.x + threadIdx.x; i < count; i += gridDim.x * 1ull * blockDim.x)
    x[i] = x[i] > 0.0f ? x[i] : 0.0f;
})";

int64_t thread_cpu_ns() {
  timespec now;
  ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return now.tv_sec * 1'000'000'000 + now.tv_nsec;
}

double percentile_us(std::vector<int64_t> values_ns, double share) {
  std::sort(values_ns.begin(), values_ns.end());
  return static_cast<double>(values_ns[static_cast<size_t>(share * static_cast<double>(values_ns.size() - 1))]) / 1000;
}

// "[10.1, 10.3, 11.0, 12.9, 97.5]": the shortest, a tenth, half, nine tenths, 99 of 100, the longest
std::string spread_us(const std::vector<int64_t>& values_ns) {
  std::string text;
  for (const double share : {0.0, 0.1, 0.5, 0.9, 0.99, 1.0})
    text += format("{}{:.1f}", text.empty() ? "" : ", ", percentile_us(values_ns, share));
  return "[" + text + "]";
}

// One buffer and one timeline of the Vulkan device, and CUDA's view of both.
class Frames {
 public:
  static Result<std::unique_ptr<Frames>> open(VulkanProgram& vulkan, Host& host, size_t size_bytes) {
    std::unique_ptr<Frames> frames(new Frames(vulkan, host, size_bytes));
    TENON_TRY(frames->open_driver());
    TENON_TRY(frames->open_session());
    return frames;
  }
  ~Frames() {
    vulkan_.destroy(buffer_);
    vulkan_.destroy(output_);
    vulkan_.destroy(staging_);
  }

  struct Times {
    std::vector<int64_t> frame_ns, submit_ns, submit_cpu_ns;
    std::vector<int64_t> wait_ns, run_ns, signal_ns;  // the three calls of the way "session"
    std::vector<double> rounds_us;                    // the median of submit_cpu_ns in each round
  };
  // `work` queues the CUDA part: waits for the first value, signals the second; its result is in the same buffer or in
  // the other one.
  Result<Times> run(int frames, bool in_place, const std::function<Status(uint64_t wait, uint64_t signal)>& work) {
    Times times;
    calls_ = {};
    for (int i = 0; i < frames; ++i) {
      const uint64_t base = value_;
      value_ += 3;
      const float element = i % 2 == 0 ? 2.0f : -2.0f;
      uint32_t word = 0;
      std::memcpy(&word, &element, sizeof(word));
      const int64_t begin = monotonic_ns();
      vulkan_.submit_fill(buffer_, word, semaphore_, base, base + 1);
      const int64_t submit = monotonic_ns(), cpu = thread_cpu_ns();
      TENON_TRY(work(base + 1, base + 2));
      times.submit_cpu_ns.push_back(thread_cpu_ns() - cpu);
      times.submit_ns.push_back(monotonic_ns() - submit);
      vulkan_.submit_copy(readback_, in_place ? buffer_ : output_, semaphore_, base + 2, base + 3);
      TENON_TRY(poll(base + 3));
      times.frame_ns.push_back(monotonic_ns() - begin);
    }
    times.wait_ns = std::move(calls_.wait_ns);
    times.run_ns = std::move(calls_.run_ns);
    times.signal_ns = std::move(calls_.signal_ns);
    return times;
  }

  Status bare(uint64_t wait, uint64_t signal) {
    TENON_TRY(imported_->wait(*stream_, wait));
    return imported_->signal(*stream_, signal);
  }
  Status kernel(uint64_t wait, uint64_t signal) {
    TENON_TRY(imported_->wait(*stream_, wait));
    TENON_TRY(launch_relu(memory_import_->address()));
    return imported_->signal(*stream_, signal);
  }
  Status session(uint64_t wait, uint64_t signal) {
    int64_t since = monotonic_ns();
    const auto lap = [&] {
      const int64_t now = monotonic_ns();
      return now - std::exchange(since, now);
    };
    TENON_TRY(
        answer(host_.interop().WaitSemaphore(importer_.get(), semaphore_handle_.get(), sync_stream_.get(), wait)));
    calls_.wait_ns.push_back(lap());
    TENON_TRY(host_.run(session_.get(), tensor_.get(), result_.get(), run_options_.get()));
    calls_.run_ns.push_back(lap());
    TENON_TRY(
        answer(host_.interop().SignalSemaphore(importer_.get(), semaphore_handle_.get(), sync_stream_.get(), signal)));
    calls_.signal_ns.push_back(lap());
    return Status();
  }
  Status folded(uint64_t wait, uint64_t signal) {
    const auto handle = reinterpret_cast<uintptr_t>(semaphore_handle_.get());
    char waits[64], signals[64];
    std::snprintf(waits, sizeof(waits), "%#zx:%llu", size_t{handle}, static_cast<unsigned long long>(wait));
    std::snprintf(signals, sizeof(signals), "%#zx:%llu", size_t{handle}, static_cast<unsigned long long>(signal));
    const OrtApi& api = host_.api();
    TENON_TRY(answer(api.AddRunConfigEntry(fence_options_.get(), TENON_RUN_WAITS, waits)));
    TENON_TRY(answer(api.AddRunConfigEntry(fence_options_.get(), TENON_RUN_SIGNALS, signals)));
    return host_.run(session_.get(), tensor_.get(), result_.get(), fence_options_.get());
  }
  bool can_fold() const { return host_.is_tenon(); }
  // The whole way over the host, on the calling thread.
  Result<Times> run_copied(int frames) {
    Times times;
    const CudaDriver& driver = memory_->device()->driver();
    for (int i = 0; i < frames; ++i) {
      const uint64_t base = value_;
      value_ += 4;
      const int64_t begin = monotonic_ns();
      vulkan_.submit_fill(buffer_, 0x40000000, semaphore_, base, base + 1);
      vulkan_.submit_copy(staging_, buffer_, semaphore_, base + 1, base + 2);
      TENON_TRY(poll(base + 2));
      const auto host = reinterpret_cast<CUdeviceptr>(staging_.mapped);
      TENON_CUDA_TRY(driver, MemcpyAsync, reinterpret_cast<CUdeviceptr>(own_), host, size_bytes_, stream_->native());
      TENON_TRY(launch_relu(own_));
      TENON_CUDA_TRY(driver, MemcpyAsync, host, reinterpret_cast<CUdeviceptr>(own_), size_bytes_, stream_->native());
      TENON_TRY(stream_->synchronize());
      vulkan_.submit_copy(buffer_, staging_, semaphore_, base + 2, base + 3);
      vulkan_.submit_copy(readback_, buffer_, semaphore_, base + 3, base + 4);
      TENON_TRY(poll(base + 4));
      times.frame_ns.push_back(monotonic_ns() - begin);
    }
    return times;
  }
  // After a frame of negative elements.
  Status check_last(float expected) const {
    const float found = *static_cast<const float*>(readback_.mapped);
    if (found != expected) return device_error("Vulkan reads {} where CUDA wrote {}.", found, expected);
    return Status();
  }

 private:
  Frames(VulkanProgram& vulkan, Host& host, size_t size_bytes)
      : vulkan_(vulkan),
        host_(host),
        size_bytes_(size_bytes),
        buffer_(vulkan.make_buffer(size_bytes, true)),
        output_(vulkan.make_buffer(size_bytes, true)),
        staging_(vulkan.make_staging_buffer(size_bytes)),
        readback_(vulkan.make_staging_buffer(4096)),
        semaphore_(vulkan.make_timeline(0)),
        callbacks_(vulkan.callbacks(semaphore_)) {}

  Status answer(OrtStatus* status) const { return conformance::to_status(host_.take(status), "The C ABI"); }

  ExternalHandle handle(int fd) const {
    ExternalHandle described{.kind = ExternalMemoryKind::kVulkanOpaqueFd, .type = HandleType::kFd, .fd = fd};
    described.dedicated = true;
    return described;
  }

  Status open_driver() {
    TENON_TRY_ASSIGN(const CudaDriver* driver, cuda_driver());
    TENON_TRY_ASSIGN(memory_, CudaMemory::of(*driver, 0));
    TENON_TRY_ASSIGN(stream_, CudaStream::create(memory_->device()));
    memory_->streams().add(stream_);
    TENON_TRY_ASSIGN(const Nvrtc* compiler, nvrtc());
    TENON_TRY_ASSIGN(const NvrtcImage image,
                     compiler->compile({.text = kKernel, .name = "relu.cu"}, memory_->device()->compute_capability()));
    TENON_TRY_ASSIGN(module_, CudaModule::load(memory_->device(), image.code));
    TENON_TRY_ASSIGN(relu_, module_->function("relu"));
    TENON_TRY_ASSIGN(own_, memory_->allocate(size_bytes_, nullptr));
    const OwnedHandle fd = vulkan_.export_fd(buffer_);
    TENON_TRY_ASSIGN(memory_import_, MemoryImport::import(memory_, {}, handle(fd.fd()), size_bytes_, 0));
    const OwnedHandle timeline = vulkan_.export_fd(semaphore_);
    TENON_TRY_ASSIGN(const ExternalSemaphore semaphore,
                     read_external_semaphore(ORT_EXTERNAL_SEMAPHORE_VK_TIMELINE_SEMAPHORE_OPAQUE_FD,
                                             reinterpret_cast<void*>(static_cast<intptr_t>(timeline.fd()))));
    TENON_TRY_ASSIGN(imported_, SemaphoreImport::import(memory_, semaphore));
    return Status();
  }

  Status open_tensor(const VulkanBuffer& buffer, int64_t count, Owned<OrtExternalMemoryHandle>* handle,
                     Owned<OrtValue>* tensor) {
    TenonExternalMemoryInfo info = {};
    info.kind = ORT_EXTERNAL_MEMORY_HANDLE_TYPE_VK_MEMORY_OPAQUE_FD;
    info.dedicated = 1;
    OwnedHandle fd = vulkan_.export_fd(buffer);
    info.handle.fd = fd.fd();
    TENON_TRY_ASSIGN(*handle, host_.import_described(importer_.get(), info, size_bytes_));
    (void)fd.release_fd();
    TENON_TRY_ASSIGN(*tensor, host_.tensor_in(importer_.get(), handle->get(), std::span(&count, 1)));
    return Status();
  }

  Status open_session() {
    const OrtApi& api = host_.api();
    const auto count = static_cast<int64_t>(size_bytes_ / sizeof(float));
    TENON_TRY_ASSIGN(session_, host_.create_session(test::relu_model({count})));
    TENON_TRY_ASSIGN(importer_, host_.create_importer());
    TENON_TRY_ASSIGN(sync_stream_, host_.create_stream());
    TENON_TRY(open_tensor(buffer_, count, &memory_handle_, &tensor_));
    TENON_TRY(open_tensor(output_, count, &output_handle_, &result_));
    OwnedHandle timeline = vulkan_.export_fd(semaphore_);
    TENON_TRY_ASSIGN(semaphore_handle_,
                     host_.import_semaphore(importer_.get(), ORT_EXTERNAL_SEMAPHORE_VK_TIMELINE_SEMAPHORE_OPAQUE_FD,
                                            reinterpret_cast<void*>(static_cast<intptr_t>(timeline.fd()))));
    (void)timeline.release_fd();
    for (Owned<OrtRunOptions>* made : {&run_options_, &fence_options_}) {
      OrtRunOptions* options = nullptr;
      TENON_TRY(answer(api.CreateRunOptions(&options)));
      *made = host_.own(options, api.ReleaseRunOptions);
      TENON_TRY(answer(api.AddRunConfigEntry(options, "disable_synchronize_execution_providers", "1")));
      api.RunOptionsSetSyncStream(options, sync_stream_.get());
    }
    return Status();
  }

  Status launch_relu(void* data) {
    TENON_TRY_ASSIGN(const ContextScope scope, ContextScope::enter(*memory_->device()));
    return launch(memory_->device()->driver(), relu_,
                  {.grid_x = 4 * static_cast<unsigned>(memory_->device()->multiprocessors()), .block_x = 512},
                  stream_->native(), static_cast<float*>(data),
                  static_cast<unsigned long long>(size_bytes_ / sizeof(float)));
  }

  // A blocking wait for a timeline that CUDA signals wakes 10 ms late.
  Status poll(uint64_t value) {
    const int64_t end = monotonic_ns() + 5'000'000'000;
    for (;;) {
      TENON_TRY_ASSIGN(const uint64_t reached, callbacks_.value());
      if (reached >= value) return Status();
      if (monotonic_ns() > end) return cancelled("Value {} is not reached within 5 s; it is {}.", value, reached);
    }
  }

  VulkanProgram& vulkan_;
  Host& host_;
  const size_t size_bytes_;
  const VulkanBuffer buffer_, output_, staging_, readback_;
  const VkSemaphore semaphore_;
  const TimelineCallbacks callbacks_;
  uint64_t value_ = 0;
  Times calls_;
  std::shared_ptr<CudaMemory> memory_;
  std::shared_ptr<CudaStream> stream_;
  std::shared_ptr<CudaModule> module_;
  CUfunction relu_ = nullptr;
  void* own_ = nullptr;
  std::shared_ptr<MemoryImport> memory_import_;
  std::shared_ptr<SemaphoreImport> imported_;
  Owned<OrtSession> session_;
  Owned<OrtExternalResourceImporter> importer_;
  Owned<OrtSyncStream> sync_stream_;
  Owned<OrtExternalMemoryHandle> memory_handle_, output_handle_;
  Owned<OrtExternalSemaphoreHandle> semaphore_handle_;
  Owned<OrtValue> tensor_, result_;
  Owned<OrtRunOptions> run_options_, fence_options_;
};

void report(const std::string& host, const char* way, size_t size_bytes, const Frames::Times& times) {
  std::string line = format(
      "{{\"host\": \"{}\", \"way\": \"{}\", \"bytes\": {}, \"frames\": {}, \"p50_us\": {:.1f}, "
      "\"p99_us\": {:.1f}, \"max_us\": {:.1f}",
      host, way, size_bytes, times.frame_ns.size(), percentile_us(times.frame_ns, 0.5),
      percentile_us(times.frame_ns, 0.99), percentile_us(times.frame_ns, 1));
  const std::pair<const char*, const std::vector<int64_t>&> parts[] = {{"submit", times.submit_ns},
                                                                       {"submit_cpu", times.submit_cpu_ns},
                                                                       {"wait_call", times.wait_ns},
                                                                       {"run_call", times.run_ns},
                                                                       {"signal_call", times.signal_ns}};
  for (const auto& [name, values] : parts)
    if (!values.empty()) line += format(", \"{}_us\": {}", name, spread_us(values));
  std::string rounds;
  for (const double us : times.rounds_us) rounds += format("{}{:.1f}", rounds.empty() ? "" : ", ", us);
  if (!rounds.empty()) line += ", \"submit_cpu_rounds_us\": [" + rounds + "]";
  std::printf("%s}\n", line.c_str());
  std::fflush(stdout);
}

struct Way {
  const char* name;
  Frames* frames;
  Status (Frames::*work)(uint64_t, uint64_t);  // null: copied
  std::string host;
  Frames::Times times;
};

Status measure(VulkanProgram& vulkan, const std::vector<std::unique_ptr<Host>>& hosts, size_t size_bytes, int frames,
               bool rounds) {
  std::vector<std::unique_ptr<Frames>> loops;
  std::vector<Way> ways;
  for (const auto& host : hosts) {
    TENON_TRY_ASSIGN(auto loop, Frames::open(vulkan, *host, size_bytes));
    const std::string name = host->description();
    if (loops.empty()) {
      ways.push_back({"bare", loop.get(), &Frames::bare, name, {}});
      ways.push_back({"kernel", loop.get(), &Frames::kernel, name, {}});
      ways.push_back({"copied", loop.get(), nullptr, name, {}});
    }
    ways.push_back({"session", loop.get(), &Frames::session, name, {}});
    if (loop->can_fold()) ways.push_back({"folded", loop.get(), &Frames::folded, name, {}});
    loops.push_back(std::move(loop));
  }
  // Once each, unmeasured, and the result looked at; then one after the other, so that all see the same machine.
  for (int round = -1; round < (rounds ? 5 : 1); ++round) {
    const int count = round < 0 ? 20 : rounds ? frames / 5 : frames;
    for (Way& way : ways) {
      const auto work = [&](uint64_t wait, uint64_t signal) { return (way.frames->*way.work)(wait, signal); };
      const bool in_place = way.work == &Frames::bare || way.work == &Frames::kernel;
      TENON_TRY_ASSIGN(const Frames::Times times,
                       way.work != nullptr ? way.frames->run(count, in_place, work)
                                           : way.frames->run_copied(round < 0 ? 5 : std::max(10, count / 5)));
      if (round < 0) {
        if (way.work != nullptr && way.work != &Frames::bare)
          TENON_TRY_CONTEXT(way.frames->check_last(0.0f), "in the way \"{}\"", way.name);
        continue;
      }
      for (auto list : {&Frames::Times::frame_ns, &Frames::Times::submit_ns, &Frames::Times::submit_cpu_ns,
                        &Frames::Times::wait_ns, &Frames::Times::run_ns, &Frames::Times::signal_ns})
        (way.times.*list).insert((way.times.*list).end(), (times.*list).begin(), (times.*list).end());
      if (!times.submit_cpu_ns.empty()) way.times.rounds_us.push_back(percentile_us(times.submit_cpu_ns, 0.5));
    }
  }
  for (const Way& way : ways) report(way.host, way.name, size_bytes, way.times);
  return Status();
}

Status bench(const std::vector<const char*>& libraries, const char* plugin, int frames) {
  std::string why_not;
  const auto vulkan = VulkanProgram::create(&why_not, VulkanProgram::Runs::kOnGpu);
  if (vulkan == nullptr) return unsupported("{}.", why_not);
  std::vector<std::unique_ptr<Host>> hosts;
  for (const char* library : libraries) {
    conformance::HostOptions options;
    options.library = library;
    options.plugin_name = "cuda";
    options.plugin_library = plugin;
    TENON_TRY_ASSIGN(auto host, Host::load(options));
    hosts.push_back(std::move(host));
  }
  std::printf("{\"vulkan\": \"%s\"}\n", vulkan->device_name().c_str());
  TENON_TRY(measure(*vulkan, hosts, size_t{16} << 20, frames, true));
  for (const size_t size_bytes :
       {size_t{256} << 10, size_t{1} << 20, size_t{4} << 20, size_t{8} << 20, size_t{64} << 20})
    TENON_TRY_CONTEXT(measure(*vulkan, hosts, size_bytes, std::max(20, frames / 5), false), "with {} bytes",
                      size_bytes);
  return Status();
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 3) {
    std::fprintf(stderr, "cuda_frames HOST_LIBRARY CUDA_PLUGIN [--frames N] [--beside OTHER_HOST_LIBRARY]\n");
    return 2;
  }
  std::vector<const char*> libraries = {argv[1]};
  int frames = 500;
  for (int i = 3; i + 1 < argc; i += 2) {
    if (std::strcmp(argv[i], "--frames") == 0) frames = std::max(20, std::atoi(argv[i + 1]));
    if (std::strcmp(argv[i], "--beside") == 0) libraries.push_back(argv[i + 1]);
  }
  const Status done = bench(libraries, argv[2], frames);
  if (done.ok()) return 0;
  std::fprintf(stderr, "cuda_frames: %s\n", done.to_string().c_str());
  return 1;
}
