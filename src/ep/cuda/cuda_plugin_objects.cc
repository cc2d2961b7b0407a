#include "ep/cuda/cuda_plugin_objects.h"

#include <algorithm>

#include "ep/cuda/run_settings.h"

namespace tenon::cuda {

using plugin::HostApi;

namespace {

// The stream behind the host's; null for null. Any stream of this plugin.
std::shared_ptr<CudaStream> stream_behind(const HostApi& host, const OrtSyncStream* stream) {
  auto* ours = static_cast<CudaSyncStream*>(plugin::SyncStream::from(host, stream));
  return ours != nullptr ? ours->stream() : nullptr;
}

void* or_null(Result<void*> memory) { return memory.ok() ? *memory : nullptr; }

plugin::TextPairs pairs_of(const CudaMemory::Stats& stats) {
  return {{"NumAllocs", std::to_string(stats.allocations)},
          {"NumLive", std::to_string(stats.live)},
          {"InUse", std::to_string(stats.live_bytes)}};
}

class CudaNotification final : public plugin::SyncNotification {
 public:
  CudaNotification(const HostApi& host, std::shared_ptr<CudaStream> producer, CudaEvent event,
                   std::shared_ptr<CudaSession> session)
      : SyncNotification(host),
        producer_(std::move(producer)),
        event_(std::move(event)),
        session_(std::move(session)) {}

 private:
  Status activate() override { return reported(event_.record(producer_->native())); }
  Status wait_on_device(OrtSyncStream* consumer) override {
    const auto stream = stream_behind(host(), consumer);
    TENON_INVALID_IF(stream == nullptr, "The stream that waits for a notification has no implementation.");
    return reported(stream->wait_for(event_));
  }
  Status wait_on_host() override {
    Status done = event_.synchronize(this_run().deadline);
    // The stream says it in full, and is given up.
    return reported(done.code() == StatusCode::kTimeout ? producer_->synchronize() : std::move(done));
  }

  Status reported(Status status) {
    if (!status.ok() && session_ != nullptr) session_->runs().fail(status);
    return status;
  }

  const std::shared_ptr<CudaStream> producer_;
  const CudaEvent event_;
  const std::shared_ptr<CudaSession> session_;
};

}  // namespace

void* LazyMemory::allocate(const std::function<Result<void*>(CudaMemory&)>& take) {
  std::shared_ptr<CudaMemory> memory;
  {
    auto state = state_.lock();
    if (state->memory == nullptr) {
      auto opened = CudaMemory::of(driver_, ordinal_);
      if (!opened.ok()) return nullptr;
      state->memory = *std::move(opened);
    }
    memory = state->memory;
    ++state->live;
  }
  void* const block = or_null(take(*memory));
  if (block == nullptr) free([](CudaMemory&) {});
  return block;
}

void LazyMemory::free(const std::function<void(CudaMemory&)>& give_back) {
  std::shared_ptr<CudaMemory> memory = opened();
  if (memory == nullptr) return;
  give_back(*memory);
  auto state = state_.lock();
  if (--state->live == 0 && memory->device()->in_graphics()) state->memory = nullptr;
}

void* PoolAllocator::allocate(size_t size_bytes) { return allocate_on(size_bytes, nullptr); }

void* PoolAllocator::allocate_on(size_t size_bytes, OrtSyncStream* stream) {
  return memory_.allocate(
      [&](CudaMemory& memory) { return memory.allocate(size_bytes, stream_behind(host(), stream)); });
}

plugin::TextPairs PoolAllocator::stats() const {
  const auto memory = memory_.opened();
  return pairs_of(memory != nullptr ? memory->stats() : CudaMemory::Stats());
}

void* PinnedAllocator::allocate(size_t size_bytes) {
  return memory_.allocate([&](CudaMemory& memory) { return memory.allocate_pinned(size_bytes); });
}

plugin::TextPairs PinnedAllocator::stats() const {
  const auto memory = memory_.opened();
  return pairs_of(memory != nullptr ? memory->pinned_stats() : CudaMemory::Stats());
}

void* SessionAllocator::allocate(size_t size_bytes) { return allocate_on(size_bytes, nullptr); }

void* SessionAllocator::allocate_on(size_t size_bytes, OrtSyncStream* stream) {
  return reported(memory_->allocate(size_bytes, stream_behind(host(), stream)));
}

void* SessionAllocator::reserve(size_t size_bytes) { return reported(memory_->reserve(size_bytes)); }

// The ABI's allocators have no place for a reason.
void* SessionAllocator::reported(Result<void*> memory) {
  if (const auto session = session_.lock(); !memory.ok() && session != nullptr)
    session->log(ORT_LOGGING_LEVEL_ERROR, memory.status().message());
  return or_null(std::move(memory));
}

plugin::TextPairs SessionAllocator::stats() const {
  const SessionMemory::Stats stats = memory_->stats();
  return pairs_of({stats.allocations, stats.live, static_cast<int64_t>(stats.live_bytes)});
}

bool CudaDataTransfer::on_device(const MemorySpace& space) const {
  return space.device_type == DeviceType::kGpu && space.vendor_id == kNvidiaVendorId &&
         std::find(ordinals_.begin(), ordinals_.end(), space.device_id) != ordinals_.end();
}

bool CudaDataTransfer::can_copy(const MemorySpace& src, const MemorySpace& dst) const {
  const bool from = on_device(src), to = on_device(dst);
  return (from || src.device_type == DeviceType::kCpu) && (to || dst.device_type == DeviceType::kCpu) && (from || to);
}

Result<std::shared_ptr<CudaMemory>> CudaDataTransfer::memory_of(int ordinal) const {
  {
    const auto opened = opened_.lock();
    for (const auto& memory : *opened)
      if (memory->device()->ordinal() == ordinal) return memory;
  }
  // Without the lock: copies of devices that are open need not wait for this one.
  TENON_TRY_ASSIGN(auto memory, CudaMemory::of(driver_, ordinal));
  if (!memory->device()->in_graphics()) {
    auto opened = opened_.lock();
    if (std::find(opened->begin(), opened->end(), memory) == opened->end()) opened->push_back(memory);
  }
  return memory;
}

Status CudaDataTransfer::copy(const void* src, const MemorySpace& src_space, void* dst, const MemorySpace& dst_space,
                              size_t size_bytes, OrtSyncStream* ort_stream) {
  TENON_UNSUPPORTED_IF(!can_copy(src_space, dst_space), "There is no copy from {} to {}.", src_space.to_string(),
                       dst_space.to_string());
  TENON_TRY_ASSIGN(const auto memory, memory_of((on_device(src_space) ? src_space : dst_space).device_id));
  std::shared_ptr<CudaStream> stream = stream_behind(host(), ort_stream);
  const bool wait = stream == nullptr;
  if (wait) stream = memory->service_stream();
  TENON_TRY(stream->usable());
  // As in CudaSession::copy().
  if (!this_run().deadline.never() &&
      (src_space.device_type == DeviceType::kCpu || dst_space.device_type == DeviceType::kCpu))
    TENON_TRY(stream->synchronize());
  TENON_TRY_ASSIGN(const ContextScope scope, ContextScope::enter(*stream->device()));
  const auto is_default = [&](const MemorySpace& space) {
    return on_device(space) && space.kind == MemoryKind::kDefault;
  };
  // Memory of a pool is its own device's: between two the driver has to be told which.
  if (is_default(src_space) && is_default(dst_space) && src_space.device_id != dst_space.device_id) {
    TENON_TRY_ASSIGN(const auto other, memory_of(dst_space.device_id));
    TENON_CUDA_TRY(driver_, MemcpyPeerAsync, reinterpret_cast<CUdeviceptr>(dst), other->device()->context(),
                   reinterpret_cast<CUdeviceptr>(src), memory->device()->context(), size_bytes, stream->native());
    return wait ? stream->synchronize() : Status();
  }
  // Addresses are unified: the driver sees from them what lies where.
  TENON_CUDA_TRY(stream->device()->driver(), MemcpyAsync, reinterpret_cast<CUdeviceptr>(dst),
                 reinterpret_cast<CUdeviceptr>(src), size_bytes, stream->native());
  return wait ? stream->synchronize() : Status();
}

Result<std::unique_ptr<plugin::SyncNotification>> CudaSyncStream::create_notification() {
  TENON_TRY_ASSIGN(CudaEvent event, CudaEvent::create(stream_->device()));
  return std::unique_ptr<plugin::SyncNotification>(
      std::make_unique<CudaNotification>(host(), stream_, std::move(event), session_));
}

Status CudaSyncStream::flush() {
  // S4.1: the user's stream is not waited for; what the host reads of it the end of the run has waited for.
  if (stream_->borrowed()) return Status();
  Status done = stream_->synchronize();
  if (!done.ok() && session_ != nullptr) session_->runs().fail(done);
  return done;
}

Status CudaSyncStream::on_session_run_end() {
  if (session_ != nullptr) session_->device_memory()->collect();
  return Status();
}

}  // namespace tenon::cuda
