// A compiled part of a graph: its operators in order, its constants on the device.
//
// Ownership: built once, shared by the calls that run it and by what they have queued.
// Threads: immutable after it was built.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "ep/sdk/plugin_graph.h"
#include "ep/sim/sim_executor.h"

namespace tenon::sim {

class SimProgram {
 public:
  ~SimProgram();
  // `fused` gives the order of inputs and outputs.
  static Result<std::shared_ptr<SimProgram>> build(const plugin::HostApi& host, std::shared_ptr<SimRuntime> runtime,
                                                   const OrtGraph* graph, const plugin::GraphNode& fused);
  // The other half of serialize(). Errors: kInvalidArgument for bytes that are no program of this version.
  static Result<std::shared_ptr<SimProgram>> parse(std::shared_ptr<SimRuntime> runtime, std::string_view bytes);
  std::string serialize() const;

  size_t input_count() const { return inputs_.size(); }
  size_t output_count() const { return outputs_.size(); }
  // Queues everything on the call's stream.
  Status run(const plugin::HostApi& host, const plugin::KernelCall& call) const;

 private:
  struct Value {
    std::string name;
    SimTensor tensor;              // constants only
    std::vector<std::byte> bytes;  // constants only
    void* address = nullptr;       // constants only: on the device
    bool constant = false;
  };
  struct Step {
    std::shared_ptr<SimNode> node;
    std::vector<int32_t> inputs;  // values; -1: absent
    std::vector<int32_t> outputs;
  };
  explicit SimProgram(std::shared_ptr<SimRuntime> runtime) : runtime_(std::move(runtime)) {}
  int32_t value(const std::string& name);
  Status check() const;
  // Puts the constants on the device and finds each value's last use.
  Status finish();

  const std::shared_ptr<SimRuntime> runtime_;
  std::vector<Value> values_;
  std::vector<Step> steps_;
  std::vector<int32_t> inputs_, outputs_;
  std::vector<size_t> last_use_;  // one a value: the step after which nobody reads it
};

// OK, or why the device does not take a node. `host_input_constant`: inputs that it reads on the host must be constant.
Status can_run(const plugin::GraphNode& node, bool host_input_constant);

}  // namespace tenon::sim
