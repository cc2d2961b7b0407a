// Objects that runs use one after the other: what a run would otherwise have to allocate.
#pragma once

#include <atomic>
#include <cstddef>
#include <memory>
#include <utility>
#include <vector>

#include "base/guarded.h"
#include "runtime/idle_slots.h"

namespace tenon {

// Owned objects that nobody uses at the moment. Threads: any. Objects end with no lock held, and only more of them than
// there are slots need one.
template <typename T>
class IdleObjects {
 public:
  // `wanted` (may be null) if it is here, else any; null when there is none.
  std::unique_ptr<T> take(const T* wanted = nullptr) const {
    std::unique_ptr<T> object;
    if ((wanted != nullptr && slots_.take(wanted, object)) || slots_.take_any(object)) return object;
    if (overflow_.load(std::memory_order_acquire) == 0) return nullptr;
    auto more = more_.lock();
    if (more->empty()) return nullptr;
    object = std::move(more->back());
    more->pop_back();
    overflow_.store(more->size(), std::memory_order_release);
    return object;
  }

  void give(std::unique_ptr<T> object) const {
    const T* const key = object.get();
    if (slots_.give(key, object)) return;
    auto more = more_.lock();
    more->push_back(std::move(object));
    overflow_.store(more->size(), std::memory_order_release);
  }

  size_t size() const { return slots_.size() + overflow_.load(std::memory_order_relaxed); }

 private:
  mutable IdleSlots<std::unique_ptr<T>> slots_;
  mutable std::atomic<size_t> overflow_{0};  // the size of `more_`
  Guarded<std::vector<std::unique_ptr<T>>> more_;
};

// Threads: any. Objects are made, and end, with no lock held.
template <typename T>
class IdlePool {
 public:
  // An object of the pool, or a new one; given back at the end of the scope, with what the user has left in it.
  // Lifetime: the pool outlives it.
  class Lease {
   public:
    explicit Lease(const IdlePool& pool) : pool_(pool), object_(pool.idle_.take()) {
      if (object_ == nullptr) object_ = std::make_unique<T>();
    }
    ~Lease() { pool_.idle_.give(std::move(object_)); }
    Lease(const Lease&) = delete;
    Lease& operator=(const Lease&) = delete;
    T& operator*() const { return *object_; }
    T* operator->() const { return object_.get(); }

   private:
    const IdlePool& pool_;
    std::unique_ptr<T> object_;
  };

  Lease take() const { return Lease(*this); }

 private:
  IdleObjects<T> idle_;
};

}  // namespace tenon
