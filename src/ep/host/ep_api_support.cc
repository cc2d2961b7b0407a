// OrtEpApi: functions by which an EP claims nodes in GetCapability.
#include <algorithm>
#include <memory>
#include <string>
#include <string_view>

#include "abi/objects/slots.h"
#include "abi/objects/view_arguments.h"
#include "base/format.h"
#include "ep/host/ep_support_info.h"
#include "ep/host/graph_view.h"

namespace tenon::abi {

namespace {

constexpr uint32_t kDropConstantsSince = 23;  // the API version of OrtNodeFusionOptions::drop_constant_initializers

// "Ep_123_0": the same in every session with this model, another for each region, as plugins that keep what they
// compiled expect it.
std::string region_name(const OrtEpGraphSupportInfo& info) {
  uint64_t hash = 14695981039346656037u;  // FNV-1a
  const auto add = [&](std::string_view text) {
    for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 1099511628211u;
    hash *= 1099511628211u;
  };
  add(info.graph->name);
  for (const std::unique_ptr<OrtNode>& node : info.graph->nodes) {
    add(node->op_type);
    for (const OrtValueInfo* output : node->outputs) add(output != nullptr ? output->name : std::string_view());
  }
  return format("{}_{}_{}", info.ep_name, hash, info.claims.size());
}

OrtStatus* check_node(const OrtEpGraphSupportInfo& info, const OrtNode& node) noexcept {
  if (node.core.valid() && node.graph != nullptr && node.graph->core == info.graph->core) return nullptr;
  return ort_error(ORT_INVALID_ARGUMENT, "Node \"{}\" is not of the graph that EP \"{}\" was asked about.", node.name,
                   info.ep_name);
}

}  // namespace

OrtStatus* ep_api::EpGraphSupportInfo_AddNodesToFuse(OrtEpGraphSupportInfo* graph_support_info,
                                                     const OrtNode* const* nodes, size_t num_nodes,
                                                     const OrtNodeFusionOptions* node_fusion_options) noexcept {
  if (graph_support_info == nullptr)
    return ort_error(ORT_INVALID_ARGUMENT, "Must specify a valid OrtEpGraphSupportInfo instance");
  if (num_nodes == 0 || nodes == nullptr)
    return ort_error(ORT_INVALID_ARGUMENT, "Must specify a valid array of 1 or more supported nodes");
  return guarded([&]() -> OrtStatus* {
    Claim claim;
    claim.fused = true;
    claim.name = region_name(*graph_support_info);
    for (size_t i = 0; i < num_nodes; ++i) {
      if (nodes[i] == nullptr) return ort_error(ORT_INVALID_ARGUMENT, "Node {} of {} to fuse is null.", i, num_nodes);
      if (OrtStatus* bad = check_node(*graph_support_info, *nodes[i])) return bad;
      claim.nodes.push_back(nodes[i]->core);
    }
    std::sort(claim.nodes.begin(), claim.nodes.end());
    const auto twice = std::adjacent_find(claim.nodes.begin(), claim.nodes.end());
    if (twice != claim.nodes.end())
      return ort_error(ORT_INVALID_ARGUMENT, "Node {} is given twice to be fused.", *twice);
    if (node_fusion_options != nullptr && node_fusion_options->ort_version_supported >= kDropConstantsSince)
      claim.drop_constants = node_fusion_options->drop_constant_initializers;
    graph_support_info->claims.push_back(std::move(claim));
    return nullptr;
  });
}

OrtStatus* ep_api::EpGraphSupportInfo_AddSingleNode(OrtEpGraphSupportInfo* graph_support_info,
                                                    const OrtNode* node) noexcept {
  if (graph_support_info == nullptr) return ort_error(ORT_INVALID_ARGUMENT, "Must specify a valid OrtGraph instance");
  if (node == nullptr) return ort_error(ORT_INVALID_ARGUMENT, "Must specify a non-null OrtNode");
  return guarded([&]() -> OrtStatus* {
    if (OrtStatus* bad = check_node(*graph_support_info, *node)) return bad;
    Claim claim;
    claim.nodes.push_back(node->core);
    claim.name = node->name;
    graph_support_info->claims.push_back(std::move(claim));
    return nullptr;
  });
}

// Null and success when the EP has no kernel for the node.
OrtStatus* ep_api::EpGraphSupportInfo_LookUpKernel(OrtEpGraphSupportInfo* graph_support_info, const OrtNode* node,
                                                   const OrtKernelDef** out_kernel_def) noexcept {
  clear(out_kernel_def);
  if (out_kernel_def == nullptr) return null_argument("out_kernel_def");
  if (graph_support_info == nullptr)
    return ort_error(ORT_INVALID_ARGUMENT, "Must specify a valid OrtEpGraphSupportInfo instance");
  if (node == nullptr) return ort_error(ORT_INVALID_ARGUMENT, "Must specify a valid non-null OrtNode instance");
  return guarded([&]() -> OrtStatus* {
    if (OrtStatus* bad = check_node(*graph_support_info, *node)) return bad;
    if (graph_support_info->registry == nullptr) return nullptr;
    const Graph& graph = *graph_support_info->graph->core;
    const auto* const entry = graph_support_info->registry->find(graph, graph.nodes[node->core]);
    if (entry != nullptr) *out_kernel_def = entry->def.get();
    return nullptr;
  });
}

}  // namespace tenon::abi
