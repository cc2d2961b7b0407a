// Claims and compiles regions for one session, for the EP's GetCapability and Compile.
#pragma once

#include <memory>
#include <vector>

#include "ep/cuda/compute/context.h"
#include "ep/cuda/cuda_session.h"
#include "graph/graph.h"

namespace tenon::cuda {

// A MakeRegionCompiler.
Result<std::unique_ptr<RegionCompiler>> make_region_compiler(std::shared_ptr<CudaSession> session);

// The two steps of it that need no device: what is claimed, and a fused node's graph with its inputs and outputs,
// whose constants are the host's (import_graph). `tf32`: as regions are lowered.
Status claim_regions(const plugin::HostApi& host, const OrtGraph* graph, bool tf32, OrtEpGraphSupportInfo* support);
struct FusedRegion {
  Graph graph;
  std::vector<size_t> arguments;  // which of the node's inputs are the region's; the others are constants
};
Result<FusedRegion> import_region(const plugin::HostApi& host, const OrtGraph* graph, const OrtNode* fused_node);

}  // namespace tenon::cuda
