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
    for (Attribute& attribute : node.attributes) {
      if (!attribute.graph) continue;
      auto body = std::make_shared<Graph>(*attribute.graph);
      TENON_TRY(visit(*body));
      TENON_TRY(for_each_body(*body, visit));
      attribute.graph = std::move(body);
    }
  }
  return {};
}

Status claim_in_bodies(Graph& graph, std::span<DeviceProvider* const> devices, std::span<const std::string> ep_names,
                       int32_t first_region, std::vector<std::vector<Region>>& regions) {
  regions.resize(devices.size());
  return for_each_body(graph, [&](Graph& body) -> Status {
    Partition partition(body);
    for (size_t i = 0; i < devices.size(); ++i) {
      Result<std::vector<Claim>> claims = devices[i]->claim_rest(body, partition.taken());
      if (!claims.ok())
        return std::move(claims).status().with_context(
            format("while the EP \"{}\" is asked for operators of its own in a subgraph", ep_names[i]));
      TENON_TRY(partition.add(static_cast<int32_t>(i) + 1, ep_names[i], std::move(claims).value()));
    }
    TENON_TRY_ASSIGN(std::vector<Region> made, partition.build(body, first_region));
    first_region += static_cast<int32_t>(made.size());
    for (Node& node : body.nodes) {
      const int32_t number = provider_number(node);
      if (number == 0) continue;
      node.set_int("provider", 0);
      node.set_int(kHostOperator, number);
    }
    for (size_t r = 0; r < made.size(); ++r)
      regions[static_cast<size_t>(partition.grants()[r].provider) - 1].push_back(std::move(made[r]));
    return {};
  });
}

const ExecutionProvider& HostOperators::of(const Node& node) const {
  const int64_t number = is_region(node) ? Attributes(node).integer(kHostOperator) : 0;
  return number == 0 ? cpu_ : *devices_[static_cast<size_t>(number - 1)];
}

}  // namespace tenon
