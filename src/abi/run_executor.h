// The thread on which a session's asynchronous runs work, one after the other. It starts with the first of them.
//
// Lifetime: the destructor waits for the runs that are queued.
#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>

#include "base/status.h"

namespace tenon::abi {

class RunExecutor {
 public:
  RunExecutor() = default;
  ~RunExecutor();
  RunExecutor(const RunExecutor&) = delete;
  RunExecutor& operator=(const RunExecutor&) = delete;

  // Errors: the thread cannot be started; then `work` is never called.
  Status post(std::function<void()> work);

 private:
  void loop();

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::function<void()>> queue_;
  bool stop_ = false;
  std::thread thread_;
};

}  // namespace tenon::abi
