// Runs operators on the simulated device, one call of a kernel or compiled node at a time: queued on a stream, with
// intermediate and scratch memory tagged by it. On the plain CPU device it computes at once.
//
// Lifetime: lives on the stack of one call; what it has queued holds all that it needs.
#pragma once

#include <tenon/tensor.h>

#include <memory>
#include <string>
#include <vector>

#include "ep/sdk/plugin_kernel.h"
#include "ep/sdk/plugin_runs.h"
#include "ep/sdk/scratch.h"
#include "ep/sim/sim_device.h"
#include "ep/sim/sim_ops.h"

namespace tenon::sim {

// The state that the calls of one session share.
struct SimRuntime {
  std::shared_ptr<SimDevice> device;  // null: the CPU device, no streams
  std::shared_ptr<plugin::ScratchPool> scratch;
  std::shared_ptr<SimRecorder> recorder = std::make_shared<SimRecorder>();
  std::atomic<bool> recording{false};
  SimFaults faults;  // of the session's option fail_at
  plugin::PluginRuns<SimStream> runs;

  // The process's faults, then the session's.
  Status hit(SimStep step) {
    TENON_TRY(process_faults().hit(step));
    return faults.hit(step);
  }
};

// One operator with its attributes, ready to run. Its inputs and outputs are those of a call.
struct SimNode : Node {
  const SimOp* op = nullptr;

  SimNode() = default;
  explicit SimNode(const SimOp& row) : op(&row) {
    op_type = row.op_type;
    since_version = row.since;
  }
};

// A tensor of one call. `memory` is set for one that lives in scratch memory.
class SimScratch;
struct SimArgument {
  SimTensor tensor;
  void* address = nullptr;
  std::shared_ptr<SimScratch> memory;
};

// A block of scratch memory for the rest of a call: its last holder frees it at that point of the stream.
class SimScratch {
 public:
  static Result<std::shared_ptr<SimScratch>> take(SimRuntime& runtime, const std::shared_ptr<SimStream>& stream,
                                                  size_t size_bytes);
  ~SimScratch();
  SimScratch(const SimScratch&) = delete;
  SimScratch& operator=(const SimScratch&) = delete;

  void* address() const { return block_.data(); }
  uint64_t use() const { return use_; }

 private:
  SimScratch() = default;
  plugin::ScratchPool::Block block_;
  uint64_t use_ = 0;
  std::shared_ptr<bool> begun_ = std::make_shared<bool>(false);  // of the stream's thread
  std::shared_ptr<SimDevice> device_;
  std::shared_ptr<SimStream> stream_;
};

class SimExecutor {
 public:
  // `stream_handle`: what KernelCall::stream_handle gave; null: the call is done when finish() returns.
  SimExecutor(std::shared_ptr<SimRuntime> runtime, void* stream_handle);
  // Asks the host for the call's stream, the new way or the old one.
  static Result<void*> stream_of(const plugin::KernelCall& call, const plugin::HostApi& host);

  // Memory for an intermediate result.
  Result<SimArgument> make(const SimTensor& tensor);
  // Output addresses are those of `out`. Sizes were found with the operator's infer().
  Status launch(const std::shared_ptr<const SimNode>& node, const std::vector<SimArgument>& in,
                const std::vector<SimArgument>& out);
  // Waits if the host gave no stream.
  Status finish();

 private:
  Status launch_on_host(const SimNode& node, const std::vector<SimArgument>& in, const std::vector<SimArgument>& out);

  const std::shared_ptr<SimRuntime> runtime_;
  std::shared_ptr<SimStream> stream_;
  bool synchronous_ = false;
  std::vector<Tensor> host_memory_;  // intermediates on the CPU device
};

}  // namespace tenon::sim
