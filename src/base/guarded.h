// Guarded<T> holds data that threads share. Access needs its lock.
//
//   Guarded<State> state_;
//   auto state = state_.lock();   // holds the mutex until `state` goes out of scope
//   state->value = 3;
#pragma once

#include <condition_variable>
#include <mutex>
#include <utility>

namespace tenon {

template <typename T>
class Guarded {
 public:
  // The lock and the data, together. Move-only; lives on the stack.
  class Locked {
   public:
    T* operator->() const { return data_; }
    T& operator*() const { return *data_; }
    // For std::condition_variable.
    std::unique_lock<std::mutex>& mutex_lock() { return lock_; }

   private:
    friend class Guarded;
    Locked(std::mutex& mutex, T* data) : lock_(mutex), data_(data) {}
    std::unique_lock<std::mutex> lock_;
    T* data_;
  };

  Guarded() = default;
  template <typename... Args>
  explicit Guarded(std::in_place_t, Args&&... args) : data_(std::forward<Args>(args)...) {}

  [[nodiscard]] Locked lock() const { return Locked(mutex_, &data_); }

 private:
  mutable std::mutex mutex_;
  mutable T data_{};
};

}  // namespace tenon
