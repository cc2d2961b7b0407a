#include "runtime/wanted_spaces.h"

#include <map>
#include <string>

#include "plan/kernel_node.h"
#include "plan/regions.h"

namespace tenon {

Result<WantedSpaces> wanted_spaces(const Graph& graph, const SessionEps& eps, const SpaceTable& table) {
  const ValueSpace plain{"CPUExecutionProvider", MemorySpace{}};
  if (eps.devices().empty())
    return WantedSpaces{std::vector(graph.inputs.size(), plain), std::vector(graph.outputs.size(), plain)};
  std::map<ValueId, ValueSpace> wanted, made;
  for (const Node& node : graph.nodes) {
    const EpId ep = ep_of(node);
    if (ep == kCpuEp) {
      for (ValueId id : node.inputs)
        if (id != kNoValue) wanted[id] = plain;
      continue;
    }
    const DeviceProvider& provider = *eps.devices()[ep];
    const KernelNodeData data(graph, node, KernelNode{});
    TENON_TRY_ASSIGN(const SpaceChoice choice, chosen_spaces(provider, data.view));
    const auto describe = [&](AllocatorId allocator) -> Result<ValueSpace> {
      TENON_TRY_ASSIGN(const SpaceId space, table.choice(provider, ep, allocator));
      return ValueSpace{eps.names()[ep], table.shown(space)};
    };
    for (size_t i = 0; i < node.inputs.size(); ++i) {
      if (node.inputs[i] == kNoValue) continue;
      TENON_TRY_ASSIGN(ValueSpace space, describe(choice.inputs[i]));
      wanted.try_emplace(node.inputs[i], std::move(space));
    }
    for (size_t o = 0; o < node.outputs.size(); ++o) {
      if (node.outputs[o] == kNoValue) continue;
      TENON_TRY_ASSIGN(made[node.outputs[o]], describe(choice.outputs[o]));
    }
  }
  const auto listed = [&](std::span<const ValueId> ids, const std::map<ValueId, ValueSpace>& known) {
    std::vector<ValueSpace> spaces;
    for (ValueId id : ids) {
      const auto found = known.find(id);
      spaces.push_back(found != known.end() ? found->second : plain);
    }
    return spaces;
  };
  return WantedSpaces{listed(graph.inputs, wanted), listed(graph.outputs, made)};
}

}  // namespace tenon
