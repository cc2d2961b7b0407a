#include "ep/cuda/session_memory.h"

#include <algorithm>

namespace tenon::cuda {

SessionMemory::~SessionMemory() {
  // Work that was queued before the last holder went may still use what waits here.
  if (!state_.lock()->freed.empty()) (void)stream_->synchronize();
  auto state = state_.lock();
  // What a stream that is given up may still write to stays out of the program's hands.
  for (const Freed& freed : state->freed)
    if (stream_->passed(freed.point)) external_.free(freed.memory);
}

Result<void*> SessionMemory::take(size_t size_bytes, const std::shared_ptr<CudaStream>& stream) {
  if (!external_.given()) return memory_->allocate(size_bytes, stream);
  // The program's allocator works on the device that is current.
  TENON_TRY_ASSIGN(const ContextScope scope, ContextScope::enter(*memory_->device()));
  TENON_FAULT_POINT("gpu_external_alloc");
  void* memory = external_.alloc(std::max<size_t>(size_bytes, 1));
  if (memory == nullptr && external_.empty_cache != nullptr) {
    external_.empty_cache();
    memory = external_.alloc(std::max<size_t>(size_bytes, 1));
  }
  if (memory == nullptr)
    return resource_exhausted("The external allocator (gpu_external_alloc) has no {} bytes.", size_bytes);
  return memory;
}

Result<void*> SessionMemory::allocate(size_t size_bytes, const std::shared_ptr<CudaStream>& stream) {
  collect();
  {
    auto state = state_.lock();
    if (size_bytes > limit_bytes_ - std::min(limit_bytes_, state->stats.live_bytes))
      return resource_exhausted("{} bytes more would exceed the session's limit (gpu_mem_limit {}); it has {}.",
                                size_bytes, limit_bytes_, state->stats.live_bytes);
    state->stats.live_bytes += size_bytes;
  }
  Result<void*> memory = take(size_bytes, stream);
  auto state = state_.lock();
  if (!memory.ok()) {
    state->stats.live_bytes -= size_bytes;
    return memory;
  }
  state->live[*memory] = size_bytes;
  ++state->stats.live;
  ++state->stats.allocations;
  return memory;
}

void SessionMemory::free(void* memory) {
  {
    auto state = state_.lock();
    const auto found = state->live.find(memory);
    if (found == state->live.end()) return;
    state->stats.live_bytes -= found->second;
    --state->stats.live;
    state->live.erase(found);
    if (external_.given()) state->freed.push_back({memory, stream_->queued()});
  }
  if (external_.given()) {
    collect();
  } else {
    memory_->free(memory);
  }
}

void SessionMemory::collect() {
  if (!external_.given()) return;
  std::vector<void*> ready;
  {
    auto state = state_.lock();
    std::erase_if(state->freed, [&](const Freed& freed) {
      if (!stream_->passed(freed.point)) return false;
      ready.push_back(freed.memory);
      return true;
    });
  }
  for (void* memory : ready) external_.free(memory);
}

SessionMemory::Stats SessionMemory::stats() const { return state_.lock()->stats; }

}  // namespace tenon::cuda
