// The threads of kernels. A session makes its own pool, shares one with other sessions, or runs on its caller alone.
//
// Threads: parallel_for may be called from any number of threads at once, also from inside a chunk (then it runs on the
// calling thread). Workers spin (bounded) only while some run is in flight, and park at its end.
#pragma once

#include <cstdint>
#include <memory>

#include "tenon/export.h"
#include "tenon/status.h"

namespace tenon {

struct ThreadPoolOptions {
  // Threads that work on one run, the caller's included: 1 makes no thread at all. 0: the CPUs that this process may
  // use (sched_getaffinity).
  int threads = 0;
  // false: workers park at once instead of spinning between the parallel regions of a run.
  bool allow_spinning = true;
};

class TENON_API ThreadPool {
 public:
  static Result<std::shared_ptr<ThreadPool>> create(const ThreadPoolOptions& options);
  virtual ~ThreadPool() = default;

  // Threads that work together, the caller's included.
  virtual int threads() const = 0;

  // Calls body(begin, end) for disjoint chunks that cover [0, count), each at least `grain` long but the last. The
  // caller works too and does every chunk that no worker has claimed, so a late worker costs nothing. Returns when all
  // chunks are done. Allocates nothing. `body` must not throw.
  template <typename Body>
  void parallel_for(int64_t count, int64_t grain, const Body& body) {
    for_chunks(
        count, grain,
        [](const void* context, int64_t begin, int64_t end) { (*static_cast<const Body*>(context))(begin, end); },
        &body);
  }

  // Brackets one run: between the two, workers may spin for more work.
  virtual void enter_run() = 0;
  virtual void leave_run() = 0;

 protected:
  using Chunk = void (*)(const void* context, int64_t begin, int64_t end);
  virtual void for_chunks(int64_t count, int64_t grain, Chunk chunk, const void* context) = 0;
};

}  // namespace tenon
