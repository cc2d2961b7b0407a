// The arenas of a session in one memory space. Each concurrent run leases one; plans share the idle ones.
#pragma once

#include <cstddef>
#include <deque>
#include <memory>
#include <vector>

#include "base/guarded.h"
#include "base/status.h"
#include "device/device.h"
#include "ep/api/ids.h"
#include "runtime/idle_slots.h"

namespace tenon {

struct Arena {
  std::shared_ptr<std::byte> memory;
  size_t size_bytes = 0;
};

// Threads: any.
class ArenaPool {
 public:
  // Of a device's memory; null for plain host memory. The allocator outlives the pool.
  explicit ArenaPool(DeviceAllocator* allocator = nullptr) : allocator_(allocator) {}

  // An arena of at least `size_bytes` (none for 0), its contents undefined. Prefers the one at `hint`, so that a run
  // that comes back finds its pointers still right, and takes no lock. The largest of the idle arenas that are too
  // small is freed for a new one, which has an eighth more than was asked for. One that is more than four times as
  // large is left to others: what one run at a time keeps idle is at most 4/3 of the largest arena, and some of up to 1
  // MiB.
  Result<Arena> acquire(size_t size_bytes, const std::byte* hint);
  void release(Arena arena);
  // Frees what is idle.
  void trim();
  size_t idle_bytes() const;

 private:
  using Idle = std::vector<Arena>;
  Arena choose(size_t size_bytes, const std::byte* hint, Arena& replaced);
  // All that is idle comes into the list, for whoever holds its lock, and goes back.
  void collect(Idle& idle) const;
  void spread(Idle& idle) const;

  DeviceAllocator* allocator_ = nullptr;
  mutable IdleSlots<Arena> slots_;  // by address
  Guarded<Idle> more_;              // than there are slots
};

// A pool for each memory space of a session, by its id. Threads: any, once all pools are added.
class ArenaPools {
 public:
  void add(DeviceAllocator* allocator) { pools_.emplace_back(allocator); }
  size_t size() const { return pools_.size(); }
  ArenaPool& operator[](SpaceId space) { return pools_[space.index()]; }
  void trim() {
    for (ArenaPool& pool : pools_) pool.trim();
  }

 private:
  std::deque<ArenaPool> pools_;
};

}  // namespace tenon
