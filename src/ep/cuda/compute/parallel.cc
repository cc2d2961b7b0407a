#include "ep/cuda/compute/parallel.h"

#include <algorithm>
#include <atomic>
#include <new>
#include <system_error>
#include <thread>
#include <vector>

namespace tenon::cuda {

void run_parallel(size_t count, const std::function<void(size_t)>& work, size_t most_threads) {
  std::atomic<size_t> next{0};
  const auto take = [&]() noexcept {
    for (size_t i = next++; i < count; i = next++) work(i);
  };
  std::vector<std::thread> threads;
  const size_t wanted = std::min({most_threads, count, size_t{std::thread::hardware_concurrency()}});
  try {
    for (size_t i = 1; i < wanted; ++i) threads.emplace_back(take);
  } catch (const std::system_error&) {
  } catch (const std::bad_alloc&) {
  }
  take();
  for (std::thread& thread : threads) thread.join();
}

}  // namespace tenon::cuda
