// Records the work of the device's streams while a session is profiled.
#pragma once

#include <chrono>
#include <cstdint>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

namespace tenon::sim {

struct SimEvent {
  std::string name;
  std::string stream;
  std::chrono::steady_clock::time_point begin;
  std::chrono::steady_clock::time_point end;
  uint64_t correlation_id = 0;
};

// Threads: every function from any thread. The correlation id is the calling thread's.
class SimRecorder {
 public:
  void add(SimEvent event) {
    std::lock_guard lock(mutex_);
    events_.push_back(std::move(event));
  }
  std::vector<SimEvent> take() {
    std::lock_guard lock(mutex_);
    return std::exchange(events_, {});
  }
  // The host's event that this thread is inside; 0: none.
  static uint64_t& correlation_id() {
    static thread_local uint64_t id = 0;
    return id;
  }

 private:
  std::mutex mutex_;
  std::vector<SimEvent> events_;
};

}  // namespace tenon::sim
