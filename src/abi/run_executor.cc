#include "abi/run_executor.h"

#include <system_error>
#include <utility>

namespace tenon::abi {

RunExecutor::~RunExecutor() {
  const bool in_a_callback = thread_.get_id() == std::this_thread::get_id();
  {
    std::unique_lock lock(queue_->mutex);
    queue_->stop = true;
    // Nobody else will come to them, and their session is about to go.
    while (in_a_callback && !queue_->items.empty()) {
      const std::function<void()> work = queue_->take_locked();
      lock.unlock();
      work();
      lock.lock();
    }
  }
  queue_->changed.notify_all();
  if (!thread_.joinable()) return;
  if (in_a_callback)
    thread_.detach();
  else
    thread_.join();
}

Status RunExecutor::post(std::function<void()> work) {
  {
    const std::lock_guard lock(queue_->mutex);
    if (!thread_.joinable()) {
      try {
        thread_ = std::thread([queue = queue_] { loop(*queue); });
      } catch (const std::system_error& error) {
        return resource_exhausted("The thread for asynchronous runs cannot be started: {}.", error.what());
      }
    }
    queue_->items.push_back(std::move(work));
  }
  queue_->changed.notify_one();
  return Status();
}

std::function<void()> RunExecutor::Queue::take_locked() {
  if (items.empty()) return nullptr;
  std::function<void()> work = std::move(items.front());
  items.pop_front();
  return work;
}

void RunExecutor::loop(Queue& queue) {
  std::unique_lock lock(queue.mutex);
  for (;;) {
    queue.changed.wait(lock, [&queue] { return queue.stop || !queue.items.empty(); });
    const std::function<void()> work = queue.take_locked();
    if (work == nullptr) return;
    lock.unlock();
    work();
    lock.lock();
  }
}

}  // namespace tenon::abi
