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
  std::string kernel;  // of a reference kernel with its operator: "ref Resize"
  std::string_view ep;
  std::vector<std::string> model_nodes;  // of a fused node: the model's; empty: the one of this name
  int32_t index = 0;                     // in its plan's graph
  int32_t step = 0;                      // of its plan
  int32_t stream = 0;                    // 0: the host does it; else the EP whose stream has it
  bool by_plugin = false;                // the EP is a plugin's
  std::vector<Tensor> inputs, outputs;
  int64_t begin_ns = 0, end_ns = 0;  // of monotonic_ns()
};

// The arguments of the node's event in traces and profiles (TraceArgs::members); those that ONNX Runtime writes too
// have its names and forms.
std::string node_arguments(const NodeRun& node);

class ValueTap;

class NodeObserver {
 public:
  virtual ~NodeObserver() = default;
  // After the node has run, whether it failed or not.
  virtual void ran(const NodeRun& node) = 0;
  // Who gets the values of the run; null when nobody does.
  virtual ValueTap* tap() { return nullptr; }

  // Of this thread; null when there is none.
  static NodeObserver* current();
  // NodeRun::by_plugin of the node that runs on this thread: its kernel says so.
  static void set_by_plugin(bool by_plugin);
  static bool by_plugin();

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
