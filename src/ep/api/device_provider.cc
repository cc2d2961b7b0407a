#include "ep/api/device_provider.h"

#include <tenon/copy_ledger.h>

namespace tenon {

void DeviceProvider::set_model(const Model&) {}
Result<bool> DeviceProvider::infer_types(Graph&) const { return false; }
Result<std::vector<Claim>> DeviceProvider::claim_rest(const Graph&, IdSpan<NodeId, const bool>) {
  return std::vector<Claim>();
}
Result<std::unique_ptr<DeviceProvider>> DeviceProvider::host_companion() { return std::unique_ptr<DeviceProvider>(); }

std::span<const CopyRecord> DeviceProvider::constant_copies() const { return {}; }
uint32_t DeviceProvider::binding_alignment() const { return 0; }
std::span<const DeviceProvider::RefusedRegion> DeviceProvider::refused_regions() const { return {}; }
Tensor DeviceProvider::placed_constant(const ConstantRef&, AllocatorId) const { return {}; }
GraphCapture* DeviceProvider::graph_capture() { return nullptr; }
bool DeviceProvider::host_runs(const Node&) const { return false; }
void DeviceProvider::set_subgraphs(const SubgraphKernels&) {}
bool DeviceProvider::can_use_stream(const DeviceStream&) const { return false; }

Status DeviceProvider::can_run(const Graph& graph, const Node& node) const {
  if (node.domain == "tenon" && node.op_type == "Region") return {};
  return unsupported("Node {} is not a region of the {} EP.", node.label(graph), name());
}

LayoutChoice DeviceProvider::choose_layouts(const KernelNode& node) const {
  return {std::vector<Layout>(node.node->inputs.size(), Layout::kPlain),
          std::vector<Layout>(node.node->outputs.size(), Layout::kPlain)};
}

bool DeviceProvider::takes_fence(const Fence&) const { return false; }

}  // namespace tenon
