#include "runtime/host_operators.h"

#include <memory>
#include <utility>

#include "base/status.h"
#include "ops/attributes.h"
#include "plan/control_flow.h"
#include "plan/regions.h"

namespace tenon {

namespace {

constexpr const char* kHostOperator = "host_operator";

}  // namespace

Status for_each_body(Graph& graph, const std::function<Status(Graph&)>& visit) {
  for (Node& node : graph.nodes) {
    if (!is_control_flow(node)) continue;
    for (Attribute& attribute : node.attributes.edit_bodies()) {
      if (!attribute.graph) continue;
      auto body = std::make_shared<Graph>(*attribute.graph);
      TENON_TRY(visit(*body));
      TENON_TRY(for_each_body(*body, visit));
      attribute.graph = std::move(body);
    }
  }
  return {};
}

Status claim_in_bodies(Graph& graph, const PerDeviceEp<DeviceProvider*>& devices,
                       const PerDeviceEp<std::string>& ep_names, int32_t first_region,
                       PerDeviceEp<std::vector<Region>>& regions) {
  regions.resize(devices.size());
  return for_each_body(graph, [&](Graph& body) -> Status {
    Partition partition(body);
    for (EpId ep : devices.ids()) {
      Result<std::vector<Claim>> claims = devices[ep]->claim_rest(body, partition.taken());
      if (!claims.ok())
        return std::move(claims).status().with_context(
            format("while the EP \"{}\" is asked for operators of its own in a subgraph", ep_names[ep]));
      TENON_TRY(partition.add(ep, ep_names[ep], std::move(claims).value()));
    }
    TENON_TRY_ASSIGN(std::vector<Region> made, partition.build(body, first_region));
    first_region += static_cast<int32_t>(made.size());
    for (Node& node : body.nodes) {
      const EpId ep = ep_of(node);
      if (ep == kCpuEp) continue;
      node.set_int("provider", kCpuEp.value());
      node.set_int(kHostOperator, ep.value());
    }
    for (size_t r = 0; r < made.size(); ++r) regions[partition.grants()[r].ep].push_back(std::move(made[r]));
    return {};
  });
}

const ExecutionProvider& HostOperators::of(const Node& node) const {
  const EpId ep = is_region(node) ? EpId(Attributes(node).integer(kHostOperator)) : kCpuEp;
  return ep == kCpuEp ? cpu_ : *devices_[ep];
}

}  // namespace tenon
