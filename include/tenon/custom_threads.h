// A thread pool whose workers are the application's own threads.
#pragma once

#include <functional>
#include <memory>

#include "tenon/thread_pool.h"

namespace tenon {

// Both functions or neither. `create` makes a thread that calls work(parameter) once, and returns what `join` gets when
// the pool goes; null is an error. Neither may throw.
struct CustomThreads {
  using Work = void (*)(void* parameter);
  std::function<void*(Work work, void* parameter)> create = nullptr;
  std::function<void(void* thread)> join = nullptr;
};

// ThreadPool::create, with the application's threads where there are any.
TENON_API Result<std::shared_ptr<ThreadPool>> make_thread_pool(const ThreadPoolOptions& options,
                                                               const CustomThreads& threads);

}  // namespace tenon
