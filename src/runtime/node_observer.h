// An observer of each node that a run computes on the host, also inside bodies, for profiles. Without an observer the
// run of a plan reads one thread-local pointer.
//
// Threads: it is called by the thread that runs the plan, and set for that thread.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "ep/api/kernel.h"

namespace tenon {

struct NodeRun {
  struct Tensor {
    DataType type = DataType::kUndefined;
    Shape shape;
    bool is_constant = false;
  };
  std::string_view name;  // may be empty
  std::string_view op_type;
  std::span<const std::string> model_nodes;  // of a fused node: the model's; empty: the one of this name
  int32_t index = 0;                         // in its plan's graph
  std::vector<Tensor> inputs, outputs;
  int64_t begin_ns = 0, end_ns = 0;  // of monotonic_ns()
};

class NodeObserver {
 public:
  virtual ~NodeObserver() = default;
  // After the node has run, whether it failed or not.
  virtual void ran(const NodeRun& node) = 0;

  // Of this thread; null when there is none.
  static NodeObserver* current();
  // A kernel that has reported its run elsewhere (to its EP's profiler) says so, and ran() is not called for it.
  static void set_reported(bool reported);
  static bool reported();

  // Sets the observer of this thread until the end of the scope.
  class Scope {
   public:
    explicit Scope(NodeObserver* observer);
    ~Scope();
    Scope(const Scope&) = delete;
    Scope& operator=(const Scope&) = delete;

   private:
    NodeObserver* const before_;
  };
};

}  // namespace tenon
