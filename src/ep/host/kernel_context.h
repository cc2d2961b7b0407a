// OrtKernelContext: what OrtNodeComputeInfo::Compute, OrtKernelImpl::Compute and a custom operator's compute see of one
// run of one kernel, over the core's KernelContext.
//
//   OrtKernelContext context(host, frame);      // once: everything that stays the same from run to run
//   context.begin(run, stream);                 // each run: points it at the run's tensors
//   OrtStatus* status = info->Compute(info, state, &context);
//   context.end();
//
// Ownership: borrows the run's tensors between begin() and end(). Values that it hands out are borrowed from it.
// Threads: one run at a time; the getters from any thread of that run. KernelContextPool has one for each run.
// Errors: getters give statuses for null pointers and indices out of range.
#pragma once

#include <tenon/onnxruntime_c_api.h>

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "abi/objects/value.h"
#include "base/guarded.h"
#include "ep/api/ep_host_api.h"
#include "ep/api/kernel.h"
#include "ep/host/kernel_info.h"

namespace tenon::abi {

// Inputs and outputs of a kernel, as its plan has them.
struct KernelFrame {
  std::vector<TensorSpec> inputs;
  std::vector<TensorSpec> outputs;
  // Where each lies: OrtMemoryInfo as GetTensorMemoryInfo reports it; empty: all in plain host memory.
  std::vector<OrtMemoryInfo> input_memory;
  std::vector<OrtMemoryInfo> output_memory;
  // Inputs whose value is known when the plan is made and that the run does not hand over (strings); null elsewhere.
  std::vector<std::shared_ptr<const OrtValue>> constants;
  // Outputs in messages: "\"y\" of Relu \"relu_1\"", the model's node that makes it. May be shorter than outputs.
  std::vector<std::string> output_labels;
};

}  // namespace tenon::abi

struct OrtKernelContext {
  OrtKernelContext(std::shared_ptr<const tenon::abi::KernelHost> host,
                   std::shared_ptr<const tenon::abi::KernelFrame> frame);

  // Allocates nothing. `stream` may be null: a synchronous run on the CPU device.
  tenon::Status begin(tenon::KernelContext& run, OrtSyncStream* stream);
  // After Compute, also after a failed one. Fails for an output whose size had to come from the kernel and did not.
  tenon::Status end();

  // The value of an output whose shape the kernel gives: where the plan knows the shape, the two must be equal.
  // Null for an output that nobody wants or that does not exist.
  tenon::Result<OrtValue*> output(size_t index, const tenon::Shape& shape);

  struct Slot {
    OrtValue value;
    const OrtValue* shown = nullptr;  // null where absent
    void* data = nullptr;             // of strings and objects: where the addresses go
    bool made = false;                // outputs whose size was not known: the kernel has said it in this run
  };

  const std::shared_ptr<const tenon::abi::KernelHost> host;
  const std::shared_ptr<const tenon::abi::KernelFrame> frame;
  tenon::KernelContext* run = nullptr;  // null outside of begin() and end()
  OrtSyncStream* stream = nullptr;
  std::vector<Slot> inputs;
  std::vector<Slot> outputs;
  // The same tensors for EPs that ask for all of them at once. Outputs whose size the kernel says are not among them.
  std::vector<tenon::TensorDescriptor> input_tensors;
  std::vector<tenon::TensorDescriptor> output_tensors;
  tenon::KernelTensors tensors = {};
};

namespace tenon::abi {

// Contexts for any number of runs at once; one that is given back is used again.
class KernelContextPool {
 public:
  KernelContextPool(std::shared_ptr<const KernelHost> host, std::shared_ptr<const KernelFrame> frame)
      : host_(std::move(host)), frame_(std::move(frame)) {}

  std::unique_ptr<OrtKernelContext> take();
  void give_back(std::unique_ptr<OrtKernelContext> context);

 private:
  const std::shared_ptr<const KernelHost> host_;
  const std::shared_ptr<const KernelFrame> frame_;
  Guarded<std::vector<std::unique_ptr<OrtKernelContext>>> idle_;
};

}  // namespace tenon::abi
