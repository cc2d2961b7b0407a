#include "abi/run_executor.h"

#include <system_error>
#include <utility>

namespace tenon::abi {

RunExecutor::~RunExecutor() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  changed_.notify_all();
  if (thread_.joinable()) thread_.join();
}

Status RunExecutor::post(std::function<void()> work) {
  {
    const std::lock_guard lock(mutex_);
    if (!thread_.joinable()) {
      try {
        thread_ = std::thread([this] { loop(); });
      } catch (const std::system_error& error) {
        return resource_exhausted("The thread for asynchronous runs cannot be started: {}.", error.what());
      }
    }
    queue_.push_back(std::move(work));
  }
  changed_.notify_one();
  return Status();
}

void RunExecutor::loop() {
  std::unique_lock lock(mutex_);
  for (;;) {
    changed_.wait(lock, [this] { return stop_ || !queue_.empty(); });
    if (queue_.empty()) return;
    const std::function<void()> work = std::move(queue_.front());
    queue_.pop_front();
    lock.unlock();
    work();
    lock.lock();
  }
}

}  // namespace tenon::abi
