// OrtEpGraphSupportInfo: collects the claims of an EP during GetCapability, for the plugin host.
//
// Lifetime: of one GetCapability call. Threads: the calling thread.
#pragma once

#include <tenon/onnxruntime_c_api.h>

#include <string>
#include <vector>

#include "ep/api/device_provider.h"
#include "ep/host/kernel_registry.h"

struct OrtEpGraphSupportInfo {
  explicit OrtEpGraphSupportInfo(const OrtGraph& view, std::string ep, const OrtKernelRegistry* kernels = nullptr)
      : graph(&view), ep_name(std::move(ep)), registry(kernels) {}

  const OrtGraph* graph;  // the view that GetCapability got
  std::string ep_name;
  const OrtKernelRegistry* registry;  // of the EP; may be null. LookUpKernel asks it.
  // In the order of the EP's calls; `nodes` are indices into graph->core->nodes, ascending. A call whose nodes are not
  // of this graph, or not unique, is refused with a status and leaves nothing here.
  std::vector<tenon::Claim> claims;
};
