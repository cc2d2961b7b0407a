#include "runtime/arena_pool.h"

#include <utility>

#include "base/trace.h"
#include "runtime/memory.h"

namespace tenon {

Result<Arena> ArenaPool::acquire(size_t size_bytes, const std::byte* hint) {
  if (size_bytes == 0) return Arena{};
  Arena replaced;  // freed after the lock, before the larger one is made
  {
    auto idle = idle_.lock();
    auto best = idle->end();
    auto smallest = idle->end();
    for (auto it = idle->begin(); it != idle->end(); ++it) {
      if (smallest == idle->end() || it->size_bytes < smallest->size_bytes) smallest = it;
      if (it->size_bytes < size_bytes) continue;
      const bool better = best == idle->end() || it->memory.get() == hint ||
                          (best->memory.get() != hint && it->size_bytes < best->size_bytes);
      if (better) best = it;
    }
    if (best != idle->end()) {
      Arena arena = std::move(*best);
      *best = std::move(idle->back());
      idle->pop_back();
      return arena;
    }
    if (smallest != idle->end()) {
      replaced = std::move(*smallest);
      *smallest = std::move(idle->back());
      idle->pop_back();
    }
  }
  TraceSpan span("allocate", "arena");
  if (span) {
    span.args().add("bytes", size_bytes).add("replaces_bytes", replaced.size_bytes);
    if (allocator_ != nullptr) span.args().add("space", allocator_->space().to_string());
  }
  replaced = {};
  Arena arena;
  TENON_TRY_ASSIGN(arena.memory,
                   allocator_ != nullptr ? allocate_device(*allocator_, size_bytes) : allocate_zeroed(size_bytes));
  arena.size_bytes = size_bytes;
  return arena;
}

void ArenaPool::release(Arena arena) {
  if (arena.memory == nullptr) return;
  auto idle = idle_.lock();
  idle->push_back(std::move(arena));
}

void ArenaPool::trim() {
  std::vector<Arena> dropped;
  auto idle = idle_.lock();
  dropped.swap(*idle);
}

size_t ArenaPool::idle_bytes() const {
  auto idle = idle_.lock();
  size_t sum = 0;
  for (const Arena& arena : *idle) sum += arena.size_bytes;
  return sum;
}

}  // namespace tenon
