#include "ep/sim/sim_plugin_objects.h"

namespace tenon::sim {

using plugin::HostApi;

SimAllocator::SimAllocator(const HostApi& host, const OrtMemoryInfo* info, std::shared_ptr<SimDevice> device,
                           SimMemory::Kind kind)
    : Allocator(host, info), device_(std::move(device)), kind_(kind) {}

void* SimAllocator::allocate(size_t size_bytes) {
  Result<void*> memory = device_->allocate(size_bytes, kind_);
  if (!memory.ok()) return nullptr;
  ++allocations_;
  ++live_;
  return *memory;
}

void SimAllocator::free(void* memory) {
  --live_;
  device_->free(memory);
}

plugin::TextPairs SimAllocator::stats() const {
  return {{"NumAllocs", std::to_string(allocations_)}, {"NumLive", std::to_string(live_)}};
}

SimDataTransfer::SimDataTransfer(const HostApi& host, std::vector<std::shared_ptr<SimDevice>> devices)
    : DataTransfer(host), devices_(std::move(devices)) {}

SimDevice* SimDataTransfer::device_of(const MemorySpace& space) const {
  if (space.device_type == DeviceType::kCpu || space.vendor_id != kSimVendorId) return nullptr;
  for (const auto& device : devices_)
    if (device->number() == space.device_id) return device.get();
  return nullptr;
}

bool SimDataTransfer::can_copy(const MemorySpace& src, const MemorySpace& dst) const {
  const SimDevice* from = device_of(src);
  const SimDevice* to = device_of(dst);
  if (from != nullptr && to != nullptr) return from == to;
  return (from != nullptr && dst.device_type == DeviceType::kCpu) ||
         (to != nullptr && src.device_type == DeviceType::kCpu);
}

Status SimDataTransfer::copy(const void* src, const MemorySpace& src_space, void* dst, const MemorySpace& dst_space,
                             size_t size_bytes, OrtSyncStream* stream) {
  SimDevice* from = device_of(src_space);
  SimDevice* to = device_of(dst_space);
  TENON_UNSUPPORTED_IF(!can_copy(src_space, dst_space), "There is no copy from {} to {}.", src_space.to_string(),
                       dst_space.to_string());
  auto* ours = static_cast<SimSyncStream*>(plugin::SyncStream::from(host(), stream));
  return (from != nullptr ? from : to)
      ->copy({.src = src,
              .src_on_device = from != nullptr,
              .dst = dst,
              .dst_on_device = to != nullptr,
              .size_bytes = size_bytes},
             ours != nullptr ? ours->stream() : nullptr);
}

namespace {

class SimNotification final : public plugin::SyncNotification {
 public:
  SimNotification(const HostApi& host, std::shared_ptr<SimStream> producer, StepHook hook, FailureHook on_failure)
      : SyncNotification(host),
        producer_(std::move(producer)),
        hook_(std::move(hook)),
        on_failure_(std::move(on_failure)) {}

 private:
  Status activate() override { return reported(mark()); }
  Status wait_on_device(OrtSyncStream* consumer) override { return reported(queue_wait(consumer)); }
  Status wait_on_host() override { return reported(wait_here()); }

  Status mark() {
    TENON_TRY(hook_(SimStep::activate));
    point_ = producer_->queued();
    return Status();
  }
  Status queue_wait(OrtSyncStream* consumer) {
    TENON_TRY(hook_(SimStep::wait_on_device));
    auto* stream = static_cast<SimSyncStream*>(plugin::SyncStream::from(host(), consumer));
    TENON_INVALID_IF(stream == nullptr, "The stream that waits for a notification has no implementation.");
    stream->stream()->wait_for(producer_, point_);
    return Status();
  }
  Status wait_here() {
    TENON_TRY(hook_(SimStep::wait_on_host));
    ++counters().total_host_waits;
    return producer_->run_until(point_);
  }

  Status reported(Status status) {
    if (!status.ok() && on_failure_) on_failure_(status);
    return status;
  }

  const std::shared_ptr<SimStream> producer_;
  const StepHook hook_;
  const FailureHook on_failure_;
  std::atomic<uint64_t> point_{0};
  SimCounters::Live counted_{counters().notifications};
};

}  // namespace

SimSyncStream::SimSyncStream(const HostApi& host, std::shared_ptr<SimDevice> device, std::string name, StepHook hook,
                             FailureHook on_failure)
    : SyncStream(host),
      device_(std::move(device)),
      stream_(device_->create_stream(std::move(name))),
      hook_(std::move(hook)),
      on_failure_(std::move(on_failure)) {}

SimSyncStream::~SimSyncStream() {
  stream_ = nullptr;
  device_->collect();
}

Result<std::unique_ptr<plugin::SyncNotification>> SimSyncStream::create_notification() {
  TENON_TRY(hook_(SimStep::create_notification));
  return std::unique_ptr<plugin::SyncNotification>(
      std::make_unique<SimNotification>(host(), stream_, hook_, on_failure_));
}

Status SimSyncStream::flush() {
  ++counters().total_host_waits;
  // The stream is brought to an end also when the flush is told to fail: the host may free what it wrote to.
  Status done = stream_->synchronize();
  device_->collect();
  if (Status told = hook_(SimStep::flush); done.ok()) done = std::move(told);
  if (!done.ok() && on_failure_) on_failure_(done);
  return done;
}

Status SimSyncStream::on_session_run_end() {
  device_->collect();
  return Status();
}

SimProfiler::SimProfiler(const HostApi& host, std::shared_ptr<SimRuntime> runtime)
    : Profiler(host), runtime_(std::move(runtime)) {}

Status SimProfiler::start() {
  TENON_TRY(runtime_->hit(SimStep::start_profiling));
  (void)runtime_->recorder->take();
  runtime_->recording = true;
  return Status();
}

Status SimProfiler::start_event(uint64_t correlation_id) {
  SimRecorder::correlation_id() = correlation_id;
  return Status();
}

Status SimProfiler::stop_event(uint64_t) {
  SimRecorder::correlation_id() = 0;
  return Status();
}

Result<std::vector<plugin::ProfiledEvent>> SimProfiler::end() {
  TENON_TRY(runtime_->hit(SimStep::end_profiling));
  runtime_->recording = false;
  if (runtime_->device != nullptr) runtime_->device->run_everything();
  std::vector<plugin::ProfiledEvent> events;
  for (SimEvent& event : runtime_->recorder->take())
    events.push_back({.name = std::move(event.name),
                      .begin = event.begin,
                      .end = event.end,
                      .correlation_id = event.correlation_id,
                      .arguments = {{"stream", std::move(event.stream)}}});
  return events;
}

}  // namespace tenon::sim
