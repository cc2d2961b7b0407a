// The thread on which a session's asynchronous runs work, one after the other. It starts with the first of them.
//
// Lifetime: the destructor waits for the runs that are queued. A program may release its session in a run's callback:
// then the destructor carries them out itself, and the thread ends when the callback returns.
#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
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
  // Shared with the thread, which may outlive the executor.
  struct Queue {
    std::mutex mutex;
    std::condition_variable changed;
    std::deque<std::function<void()>> items;
    bool stop = false;

    // Null when there is nothing.
    std::function<void()> take_locked();
  };
  static void loop(Queue& queue);

  const std::shared_ptr<Queue> queue_ = std::make_shared<Queue>();
  std::thread thread_;
};

}  // namespace tenon::abi
