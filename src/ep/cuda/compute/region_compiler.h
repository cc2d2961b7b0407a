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
// whose constants are the host's (import_graph). Errors of a claim: a model of other ranks than the session's, or one
// whose tensors nothing here can exchange; no EP could run it.
Status claim_regions(const CudaSession& session, const OrtGraph* graph, OrtEpGraphSupportInfo* support);
struct FusedRegion {
  Graph graph;
  std::vector<size_t> arguments;  // which of the node's inputs are the region's; the others are constants
};
// The session begins to meet other ranks where the region exchanges tensors.
Result<FusedRegion> import_region(const CudaSession& session, const OrtGraph* graph, const OrtNode* fused_node);

}  // namespace tenon::cuda
