#include "ep/cuda/session_memory.h"

#include <algorithm>
#include <atomic>

#include "ep/cuda/program_calls.h"

namespace tenon::cuda {

namespace {

// A session ends also while its streams wait for what nobody signals.
constexpr int64_t kLongestEndNs = 1'000'000'000;

}  // namespace

struct SessionMemory::Left {
  std::shared_ptr<CudaDevice> device;
  ExternalAllocator external;
  Freed freed;

  // Never destroyed.
  static Guarded<std::vector<Left>>& list() {
    static auto* const all = new Guarded<std::vector<Left>>;
    return *all;
  }
  static inline std::atomic<size_t> count = 0;  // of the list: most processes have none, and take no lock
};

SessionMemory::~SessionMemory() {
  std::vector<Freed> blocks = std::exchange(state_.lock()->freed, {});
  if (blocks.empty()) return;
  call_program([device = memory_->device(), external = external_, left = std::move(blocks)]() mutable {
    const Deadline deadline = Deadline::after(kLongestEndNs);
    for (Freed& freed : left) {
      // Work that was queued before the last holder went may still use the block.
      for (const auto& [stream, point] : freed.points)
        if (!stream->passed(point)) (void)stream->synchronize(deadline);
      if (passed(freed)) {
        give_back(*device, external, freed);
        continue;
      }
      auto list = Left::list().lock();
      list->push_back({device, external, std::move(freed)});
      Left::count = list->size();
    }
  });
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
  return allocate(size_bytes, stream, false);
}

Result<void*> SessionMemory::reserve(size_t size_bytes) { return allocate(size_bytes, nullptr, true); }

Result<void*> SessionMemory::allocate(size_t size_bytes, const std::shared_ptr<CudaStream>& stream, bool reserved) {
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
  state->live[*memory] = {.size_bytes = size_bytes, .reserved = reserved};
  ++state->stats.live;
  ++state->stats.allocations;
  return memory;
}

void SessionMemory::used_on(const std::shared_ptr<CudaStream>& stream) {
  if (!external_.given() || stream == nullptr || stream == stream_) return;
  auto state = state_.lock();
  const auto same = [&](const std::weak_ptr<CudaStream>& user) {
    return !user.owner_before(stream) && !stream.owner_before(user);
  };
  if (std::any_of(state->users.begin(), state->users.end(), same)) return;
  std::erase_if(state->users, [](const std::weak_ptr<CudaStream>& user) { return user.expired(); });
  state->users.push_back(stream);
}

SessionMemory::Freed SessionMemory::mark(void* memory, bool reserved, State& state) const {
  Freed freed{.memory = memory, .reserved = reserved, .points = {}};
  // A stream that is idle has no use of the block left.
  const auto add = [&](std::shared_ptr<CudaStream> stream) {
    if (stream == nullptr || stream->idle()) return;
    const uint64_t point = stream->queued();
    freed.points.emplace_back(std::move(stream), point);
  };
  add(stream_);
  for (const std::weak_ptr<CudaStream>& user : state.users) add(user.lock());
  return freed;
}

bool SessionMemory::passed(const Freed& freed) {
  return std::all_of(freed.points.begin(), freed.points.end(),
                     [](const auto& point) { return point.first->passed(point.second); });
}

void SessionMemory::give_back(const CudaDevice& device, const ExternalAllocator& external, const Freed& freed) {
  // Without a context, when the device is lost, the block goes back all the same.
  const Result<ContextScope> scope = ContextScope::enter(device);
  external.free(freed.memory);
  if (freed.reserved && external.empty_cache != nullptr) external.empty_cache();
}

void SessionMemory::free(void* memory) {
  {
    auto state = state_.lock();
    const auto found = state->live.find(memory);
    if (found == state->live.end()) return;
    const Block block = found->second;
    state->stats.live_bytes -= block.size_bytes;
    --state->stats.live;
    state->live.erase(found);
    if (external_.given()) state->freed.push_back(mark(memory, block.reserved, *state));
  }
  if (external_.given()) {
    collect();
  } else {
    memory_->free(memory);
  }
}

void SessionMemory::collect() {
  collect_left();
  if (!external_.given()) return;
  std::vector<Freed> ready;
  {
    auto state = state_.lock();
    for (Freed& freed : state->freed)
      if (passed(freed)) ready.push_back(std::exchange(freed, {}));
    std::erase_if(state->freed, [](const Freed& freed) { return freed.memory == nullptr; });
  }
  if (ready.empty()) return;
  call_program([device = memory_->device(), external = external_, ready = std::move(ready)] {
    for (const Freed& freed : ready) give_back(*device, external, freed);
  });
}

void SessionMemory::collect_left() {
  if (Left::count == 0) return;
  std::vector<Left> ready;
  {
    auto list = Left::list().lock();
    for (Left& left : *list)
      if (passed(left.freed)) ready.push_back(std::exchange(left, {}));
    std::erase_if(*list, [](const Left& left) { return left.device == nullptr; });
    Left::count = list->size();
  }
  if (ready.empty()) return;
  call_program([ready = std::move(ready)] {
    for (const Left& left : ready) give_back(*left.device, left.external, left.freed);
  });
}

SessionMemory::Stats SessionMemory::stats() const { return state_.lock()->stats; }

}  // namespace tenon::cuda
