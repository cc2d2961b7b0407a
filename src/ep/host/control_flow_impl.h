// The OrtKernelImpl that CreateIfKernel, CreateLoopKernel and CreateScanKernel make: a mark that says that the host
// runs the node, with the helper of the EP.
//
// Ownership: the host's kernel owns the impl (its Release), the impl its helper (Release of that) from the call that
// made it on; a failed call takes nothing. Threads: const access from any.
#pragma once

#include <tenon/onnxruntime_c_api.h>

#include <memory>
#include <string>

#include "ep/api/subgraphs.h"
#include "ep/host/plugin_memory.h"

namespace tenon::abi {

// Where an EP's helper works: its own memory, when the host's is none that it knows.
struct HelperMemory {
  std::shared_ptr<PluginAllocator> allocator;  // null: host memory
  DataTransfer* transfer = nullptr;
};

struct ControlFlowImpl : OrtKernelImpl {
  std::string op_type;
  OrtLoopKernelHelper* loop = nullptr;
  OrtScanKernelHelper* scan = nullptr;
  // Set by the host once it has the impl. `who` is for messages.
  std::string who;
  HelperMemory memory;
};

// `impl` as one of ours; null when a plugin wrote it.
ControlFlowImpl* as_control_flow(OrtKernelImpl* impl);

// The helper behind the core's interface; null for an If. `impl` outlives it.
std::unique_ptr<SubgraphHelper> make_helper(const ControlFlowImpl& impl);

}  // namespace tenon::abi
