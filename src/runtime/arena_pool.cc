#include "runtime/arena_pool.h"

#include <cstdint>
#include <utility>

#include "base/trace.h"
#include "runtime/memory.h"

namespace tenon {

namespace {

// A smaller one is not worth a second.
constexpr size_t kShared = 1 << 20;
// What is larger is kept for the plans that need it: else they would make another.
constexpr size_t kMostTimes = 4;
// A part of the size that an arena in place of a smaller one has more.
constexpr size_t kRoom = 8;

bool fits(const Arena& arena, size_t size_bytes, const std::byte* hint) {
  if (arena.size_bytes < size_bytes) return false;
  return arena.memory.get() == hint || arena.size_bytes <= kShared || arena.size_bytes / kMostTimes <= size_bytes;
}

}  // namespace

void ArenaPool::collect(Idle& idle) const {
  for (Arena arena; slots_.take_any(arena);) idle.push_back(std::exchange(arena, {}));
}

void ArenaPool::spread(Idle& idle) const {
  while (!idle.empty() && slots_.give(idle.back().memory.get(), idle.back())) idle.pop_back();
}

// The arena at `hint`, else the smallest that fits. Where none does, the largest of the smaller ones is `replaced`, so
// that sizes which grow from run to run leave none behind.
Arena ArenaPool::choose(size_t size_bytes, const std::byte* hint, Arena& replaced) {
  auto idle = more_.lock();
  collect(*idle);
  auto best = idle->end();
  auto smaller = idle->end();
  for (auto it = idle->begin(); it != idle->end(); ++it) {
    if (it->size_bytes < size_bytes && (smaller == idle->end() || it->size_bytes > smaller->size_bytes)) smaller = it;
    if (!fits(*it, size_bytes, hint)) continue;
    const bool better = best == idle->end() || it->memory.get() == hint ||
                        (best->memory.get() != hint && it->size_bytes < best->size_bytes);
    if (better) best = it;
  }
  Arena arena;
  const auto taken = best != idle->end() ? best : smaller;
  if (taken != idle->end()) {
    (best != idle->end() ? arena : replaced) = std::move(*taken);
    *taken = std::move(idle->back());
    idle->pop_back();
  }
  spread(*idle);
  return arena;
}

Result<Arena> ArenaPool::acquire(size_t size_bytes, const std::byte* hint) {
  if (size_bytes == 0) return Arena{};
  Arena arena, replaced;  // `replaced` is freed after the lock, before the larger one is made
  if (hint != nullptr && slots_.take(hint, arena)) {
    if (arena.size_bytes >= size_bytes) [[likely]]
      return arena;
    release(std::exchange(arena, {}));
  }
  arena = choose(size_bytes, hint, replaced);
  if (arena.memory != nullptr) return arena;
  TraceSpan span("allocate", "arena");
  if (span) {
    span.args().add("bytes", size_bytes).add("replaces_bytes", replaced.size_bytes);
    if (allocator_ != nullptr) span.args().add("space", allocator_->space().to_string());
  }
  // Sizes that grow from run to run get some room, so that not each of them takes fresh pages.
  if (replaced.memory != nullptr && size_bytes <= SIZE_MAX / 2) size_bytes += size_bytes / kRoom;
  replaced = {};
  TENON_TRY_ASSIGN(arena.memory,
                   allocator_ != nullptr ? allocate_device(*allocator_, size_bytes) : allocate_zeroed(size_bytes));
  arena.size_bytes = size_bytes;
  return arena;
}

void ArenaPool::release(Arena arena) {
  if (arena.memory == nullptr) return;
  const std::byte* const at = arena.memory.get();
  if (slots_.give(at, arena)) [[likely]]
    return;
  more_.lock()->push_back(std::move(arena));
}

void ArenaPool::trim() {
  Idle dropped;
  auto idle = more_.lock();
  collect(*idle);
  dropped.swap(*idle);
}

size_t ArenaPool::idle_bytes() const {
  auto idle = more_.lock();
  collect(*idle);
  size_t sum = 0;
  for (const Arena& arena : *idle) sum += arena.size_bytes;
  spread(*idle);
  return sum;
}

}  // namespace tenon
