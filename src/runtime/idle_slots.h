// A few places for objects that nobody uses at the moment. Putting one in and taking it out again is one atomic
// exchange each: no lock, no wait, no allocation.
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <utility>

namespace tenon {

// `T` is moved in and out, and a moved-from one holds nothing; each object has a key that is not null, such as its
// address. Threads: any.
template <typename T, size_t kSlots = 8>
class IdleSlots {
 public:
  IdleSlots() = default;
  IdleSlots(const IdleSlots&) = delete;
  IdleSlots& operator=(const IdleSlots&) = delete;

  // The object of `key` into `object`. False: it is not here (or just being put in or taken out).
  bool take(const void* key, T& object) {
    for (Slot& slot : slots_) {
      if (slot.key.load(std::memory_order_relaxed) == key && slot.take(key, object)) return true;
    }
    return false;
  }
  // Any object into `object`.
  bool take_any(T& object) {
    for (Slot& slot : slots_) {
      const void* key = slot.key.load(std::memory_order_relaxed);
      if (key != nullptr && key != busy() && slot.take(key, object)) return true;
    }
    return false;
  }
  // How many there are.
  size_t size() const {
    return static_cast<size_t>(std::count_if(slots_.begin(), slots_.end(), [](const Slot& slot) {
      return slot.key.load(std::memory_order_relaxed) != nullptr;
    }));
  }
  // False: there is no room, and `object` is unchanged.
  bool give(const void* key, T& object) {
    for (Slot& slot : slots_) {
      const void* empty = nullptr;
      if (slot.key.load(std::memory_order_relaxed) != nullptr ||
          !slot.key.compare_exchange_strong(empty, busy(), std::memory_order_acquire, std::memory_order_relaxed))
        continue;
      slot.object = std::move(object);
      slot.key.store(key, std::memory_order_release);
      return true;
    }
    return false;
  }

 private:
  // Of a slot that one thread is changing.
  static const void* busy() { return &kBusy; }
  static constexpr char kBusy = 0;

  struct Slot {
    bool take(const void* expected, T& into) {
      if (!key.compare_exchange_strong(expected, busy(), std::memory_order_acquire, std::memory_order_relaxed))
        return false;
      into = std::move(object);
      key.store(nullptr, std::memory_order_release);
      return true;
    }
    std::atomic<const void*> key{nullptr};
    T object{};
  };
  std::array<Slot, kSlots> slots_;
};

}  // namespace tenon
