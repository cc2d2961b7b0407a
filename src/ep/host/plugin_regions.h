// The regions that an EP was granted, with their code: compiled ones (OrtNodeComputeInfo) and nodes with a kernel
// of its registry (OrtKernelImpl), ready to make the light kernels of plans.
//
// Ownership: a region releases its state (ReleaseState) or kernel (Release) and holds the EP; the compute infos of one
// Compile call are released together, after the states.
// Threads: run from any; an EP that does not support that says so (IsConcurrentRunSupported).
#pragma once

#include <tenon/onnxruntime_c_api.h>

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "ep/api/device_provider.h"
#include "ep/host/control_flow_impl.h"
#include "ep/host/graph_view.h"
#include "ep/host/kernel_context.h"
#include "ep/host/kernel_info.h"
#include "ep/host/kernel_registry.h"
#include "ep/host/plugin_ep.h"

// The argument of OrtNodeComputeInfo::CreateState.
struct OrtNodeComputeContext {
  std::string name;
};

namespace tenon::abi {

// The compute infos of one Compile call, in the order of its graphs.
class ComputeInfos {
 public:
  // `in_place`: the EP promises that they are InPlaceComputeInfos.
  ComputeInfos(std::shared_ptr<PluginEp> ep, size_t count, bool in_place)
      : ep_(std::move(ep)), infos_(count, nullptr), in_place_(in_place) {}
  ~ComputeInfos();
  ComputeInfos(const ComputeInfos&) = delete;
  ComputeInfos& operator=(const ComputeInfos&) = delete;

  std::vector<OrtNodeComputeInfo*>& infos() { return infos_; }
  PluginEp& ep() const { return *ep_; }
  bool in_place() const { return in_place_; }

 private:
  const std::shared_ptr<PluginEp> ep_;
  std::vector<OrtNodeComputeInfo*> infos_;
  const bool in_place_;
};

// One region; calls Compute of whatever stands behind it.
class PluginRegion {
 public:
  virtual ~PluginRegion() = default;
  virtual Status compute(OrtKernelContext& context) const = 0;
  // The impl of CreateIfKernel and its like, for a node that the host runs; null for all others.
  virtual ControlFlowImpl* control_flow() const { return nullptr; }
  // A remark that plans show behind its name; "" for none.
  virtual std::string note() const { return ""; }
  // Whether output `output` may be exactly the memory of input `input`, for inputs of these shapes.
  virtual bool may_run_in_place(size_t input, size_t output, std::span<const TensorSpec> inputs) const {
    (void)input, (void)output, (void)inputs;
    return false;
  }

  // For the region of a single node: the names, the type and the maps below.
  void describe(const Graph& body, const Node& node);
  // For a compiled region: the name and the labels.
  void describe(const Region& region);

  std::string name;
  std::string label;                       // in messages: the model's nodes by name
  std::vector<std::string> output_labels;  // of the kernel's outputs, for messages: "\"y\" of Relu \"relu_1\""
  std::string node_name, op_type;          // of a single node; "" of a compiled region
  SpaceChoice spaces;
  // For single nodes: which of the region's inputs each of the node's is (-1: absent), outputs alike. Empty: as it is.
  std::vector<int32_t> input_map, output_map;
  bool mapped = false;
};

// CreateState is called here.
Result<std::shared_ptr<PluginRegion>> make_compiled_region(std::shared_ptr<ComputeInfos> infos, size_t index,
                                                           const Region& region);
// Creates the kernel and offers it its constant inputs to pack. `placed`, by input of the node: constants in the EP's
// own memory; null: as the model has it. `mem_types` of the definition are left to the caller.
Result<std::shared_ptr<PluginRegion>> make_kernel_region(std::shared_ptr<PluginEp> ep,
                                                         const OrtKernelRegistry::Entry& entry, const Region& region,
                                                         std::shared_ptr<const KernelHost> host, bool host_memory,
                                                         std::span<std::unique_ptr<OrtValue>> placed = {});

// The kernel that runs a region in a plan. `memory` is that of the EP's allocators.
Result<std::unique_ptr<Kernel>> make_region_kernel(std::shared_ptr<const PluginRegion> region, const KernelNode& node,
                                                   std::shared_ptr<const KernelHost> host,
                                                   const IdVector<AllocatorId, OrtMemoryInfo>& memory);

}  // namespace tenon::abi
