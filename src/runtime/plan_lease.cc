#include "runtime/plan_lease.h"

#include <algorithm>
#include <utility>

namespace tenon {

namespace {

// Arenas that a stream has outgrown and may still use.
constexpr size_t kMaxOutgrownArenas = 4;

}  // namespace

PlanLease::~PlanLease() {
  if (!ends_.empty()) leave_to_stream();
  for (SpaceId space : outgrown_.ids()) {
    for (Arena& arena : outgrown_[space]) give_back(space, std::move(arena));
  }
  if (state_ == nullptr) return;
  for (SpaceId space : state_->held.ids()) give_back(space, std::move(state_->held[space]));
  if (spoiled_) state_->drop_handles();
  runtime_.idle_states.give(std::move(state_));
}

void PlanLease::continue_after(UnfinishedRun earlier) {
  stream_id_ = earlier.stream_id;
  outgrown_ = std::move(earlier.arenas);
  ends_ = std::move(earlier.ends);
}

Status PlanLease::take(const RunState* preferred) {
  state_ = runtime_.idle_states.take(preferred);
  if (state_ == nullptr) state_ = std::make_unique<RunState>(*runtime_.plan, *resources_.pool);
  const PerSpace<size_t>& sizes = runtime_.plan->arenas;
  for (SpaceId space : sizes.ids()) {
    if (outgrown_.contains(space) && take_outgrown(space, sizes[space])) continue;
    TENON_TRY_ASSIGN(state_->held[space], (*resources_.arenas)[space].acquire(sizes[space], state_->arena(space)));
  }
  return runtime_.plan->handle_buffers.empty() ? Status() : state_->hold_handles(resources_.spaces->table());
}

bool PlanLease::may_leave() const {
  return std::all_of(outgrown_.begin(), outgrown_.end(),
                     [](const std::vector<Arena>& arenas) { return arenas.size() <= kMaxOutgrownArenas; });
}

std::unique_ptr<DeviceNotification> PlanLease::take_end() {
  if (ends_.empty()) return nullptr;
  std::unique_ptr<DeviceNotification> end = std::move(ends_.front());
  ends_.erase(ends_.begin());
  return end;
}

void PlanLease::leave(uint64_t stream_id, std::unique_ptr<DeviceNotification> end) {
  ends_.clear();
  ends_.push_back(std::move(end));
  stream_id_ = stream_id;
}

void PlanLease::finish(bool done) {
  ends_.clear();
  spoiled_ = !done;
}

void PlanLease::give_back(SpaceId space, Arena&& arena) const {
  Arena taken = std::exchange(arena, {});
  if (taken.memory != nullptr && !spoiled_) (*resources_.arenas)[space].release(std::move(taken));
}

void PlanLease::leave_to_stream() {
  outgrown_.resize(resources_.arenas->size());
  for (SpaceId space : outgrown_.ids()) {
    if (state_ == nullptr) break;
    if (!state_->held.contains(space)) continue;
    Arena arena = std::exchange(state_->held[space], {});
    if (arena.memory != nullptr) outgrown_[space].push_back(std::move(arena));
  }
  resources_.unfinished->put(
      {.stream_id = stream_id_, .ends = std::move(ends_), .arenas = std::exchange(outgrown_, {})});
}

bool PlanLease::take_outgrown(SpaceId space, size_t size_bytes) {
  std::vector<Arena>& arenas = outgrown_[space];
  const auto found =
      std::find_if(arenas.begin(), arenas.end(), [&](const Arena& arena) { return arena.size_bytes >= size_bytes; });
  if (size_bytes == 0 || found == arenas.end()) return false;
  state_->held[space] = std::move(*found);
  arenas.erase(found);
  return true;
}

}  // namespace tenon
