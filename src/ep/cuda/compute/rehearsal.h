// Compiles the kernels that a region with symbolic sizes will want for other sizes, while it runs with the ones it has:
// NVRTC takes 50 to 900 ms for a kernel, and all else that a new shape takes is some milliseconds.
//
// Which kernels these are is found by lowering the region for sizes like the present ones: neighbours, other
// alignments, multiples and parts, one and few. A size that the region refuses is left out.
#pragma once

#include <tenon/types.h>

#include <atomic>
#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <set>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "base/status.h"
#include "ep/cuda/compute/program.h"
#include "ep/cuda/exit_guard.h"
#include "graph/graph.h"

namespace tenon::cuda {

// Shapes for the graph's inputs, like `inputs`, in which symbolic sizes are others; the likely ones first. Sizes of the
// same symbol stay equal. Empty where no size is a symbol.
std::vector<std::vector<Shape>> other_sizes(const Graph& graph, std::span<const Shape> inputs);

// Where the process ends before the region does, nothing more is begun, and `exit` waits for what has been
// (exit_guard.h). Threads: its own, and those that have it.
class Rehearsal final : public Waiters {
 public:
  // Both are called by several threads at once.
  struct Work {
    std::function<Result<Program>(std::span<const Shape>)> lower;
    std::function<void(const KernelCode&, const std::atomic<bool>& cancelled)> compile;
  };
  // `compiled`: kernels that need no more work. Of its `threads`, `beside` work until hurry() is called. Where the
  // system has no threads, nothing is done.
  static std::shared_ptr<Rehearsal> begin(Work work, const std::vector<std::vector<Shape>>& shapes,
                                          std::span<const KernelCode> compiled, size_t threads, size_t beside);
  void hurry();
  // Cancels what has been begun, and waits until it ends.
  ~Rehearsal() override;
  Rehearsal(const Rehearsal&) = delete;
  Rehearsal& operator=(const Rehearsal&) = delete;

  bool done() const;
  void wait();
  // The first question cancels everything.
  std::string who_waits() const override;

  static constexpr size_t kMostKernels = 96;

 private:
  Rehearsal(Work work, const std::vector<std::vector<Shape>>& shapes, std::span<const KernelCode> compiled,
            size_t at_once);
  void run();
  bool finished() const { return working_ == 0 && (given_up_ || (kernels_.empty() && shapes_.empty())); }

  const Work work_;
  mutable std::mutex mutex_;
  mutable std::condition_variable changed_;
  std::deque<std::vector<Shape>> shapes_;
  std::deque<KernelCode> kernels_;
  std::set<std::string> seen_;
  size_t at_once_ = 0, found_ = 0, working_ = 0;
  mutable std::atomic<bool> given_up_{false};  // changed with the lock held
  std::vector<std::thread> threads_;
};

}  // namespace tenon::cuda
