// The kernel of a region that is one If, Loop or Scan and that its EP leaves to the host (CreateIfKernel and its like).
#pragma once

#include <memory>

#include "ep/api/kernel.h"
#include "ep/api/subgraphs.h"
#include "ep/host/control_flow_impl.h"
#include "ep/host/plugin_regions.h"

namespace tenon::abi {

// `node` is the region's node, with its tensors in host memory. The kernel holds `region`, whose control_flow() is set.
Result<std::unique_ptr<Kernel>> make_control_flow_kernel(std::shared_ptr<const PluginRegion> region,
                                                         const KernelNode& node, const SubgraphKernels& subgraphs);

}  // namespace tenon::abi
