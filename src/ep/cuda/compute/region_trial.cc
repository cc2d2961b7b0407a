#include "ep/cuda/compute/region_trial.h"

#include <algorithm>
#include <map>
#include <set>
#include <span>
#include <utility>

#include "base/format.h"
#include "ep/cuda/compute/claims.h"
#include "ep/cuda/compute/region.h"

namespace tenon::cuda {

namespace {

// Numbers for sizes that are symbols, the likely one first. A network of images or sound may need more than the first.
constexpr int64_t kTrialSizes[] = {64, 512, 8, 1};

// Ranks for inputs of which nobody knows one. No tensor becomes one that no device could have.
constexpr int kTrialRanks[] = {4, 3, 2, 1, 5};
constexpr int64_t kTrialSizeOfUnranked = 8;

Result<Program> lower_with(const Region& region, int64_t size, int rank, bool tf32, std::string& culprit) {
  std::vector<Shape> shapes;
  for (ValueId id : region.graph().inputs) {
    const Value& value = region.graph().value(id);
    Shape& shape = shapes.emplace_back();
    for (const Dim& dim : value.dims) shape.push_back(dim.known() ? dim.value : size);
    for (int i = 0; i < rank && !value.has_rank; ++i) shape.push_back(std::min(size, kTrialSizeOfUnranked));
  }
  culprit.clear();
  return region.lower_at(shapes, tf32, Program::kWorkspaceBytes, false, false, &culprit);
}

}  // namespace

Graph region_graph(const Graph& graph, const PerNode<int>& groups, int group) {
  Graph region;
  region.opsets = graph.opsets;
  PerValue<ValueId> inner(graph.values.size(), kNoValue);
  PerValue<bool> made(graph.values.size(), false), read_outside(graph.values.size(), false);
  const auto map = [&](ValueId id) {
    if (id != kNoValue && inner[id] == kNoValue) inner[id] = region.add_value(graph.value(id));
    return id == kNoValue ? id : inner[id];
  };
  for (ValueId id : graph.outputs) read_outside[id] = true;
  for (NodeId n : graph.nodes.ids()) {
    const Node& node = graph.nodes[n];
    if (groups[n] != group) {
      for (ValueId id : node.inputs)
        if (id != kNoValue) read_outside[id] = true;
      continue;
    }
    Node copy = node;
    for (ValueId& id : copy.inputs) {
      const bool outer = id != kNoValue && !made[id] && inner[id] == kNoValue && graph.value(id).constant == nullptr;
      id = map(id);
      if (outer) region.inputs.push_back(id);
    }
    for (ValueId& id : copy.outputs) {
      if (id != kNoValue) made[id] = true;
      id = map(id);
    }
    region.nodes.push_back(std::move(copy));
  }
  for (ValueId id : graph.values.ids())
    if (made[id] && read_outside[id]) region.outputs.push_back(inner[id]);
  return region;
}

Status try_region(Graph graph, bool tf32, std::string& culprit) {
  culprit.clear();
  TENON_TRY_ASSIGN(const Region region, Region::prepare(std::move(graph), Region::Weights::kSmallOnes));
  const std::vector<ValueId>& inputs = region.graph().inputs;
  const auto value = [&](ValueId id) -> const Value& { return region.graph().value(id); };
  if (std::all_of(inputs.begin(), inputs.end(), [&](ValueId id) { return value(id).fully_known(); }))
    return lower_with(region, 1, 0, tf32, culprit).status();
  const bool ranked = std::all_of(inputs.begin(), inputs.end(), [&](ValueId id) { return value(id).has_rank; });
  Status refused;
  std::string named;
  // Of sizes one that is served suffices; ranks have to be served as far as they fit.
  for (const int rank : std::span(kTrialRanks).first(ranked ? 1 : std::size(kTrialRanks))) {
    bool served = false;
    Status of_rank;
    for (const int64_t size : kTrialSizes) {
      const Status lowered = lower_with(region, size, rank, tf32, culprit).status();
      served = lowered.ok();
      if (served) break;
      if (lowered.code() != StatusCode::kUnsupported) continue;
      of_rank = lowered;
      named = culprit;
    }
    if (!served && !of_rank.ok()) {
      refused = of_rank;
      break;
    }
  }
  culprit = refused.ok() ? "" : named;
  return refused;
}

SettledClaims settle_claims(const Graph& graph, PerNode<bool> claimed, const PerNode<bool>& barriers, bool tf32) {
  // A node at a time is given back so often; after that whole regions are, so that this ends soon.
  constexpr int kMostNodes = 32;
  SettledClaims settled;
  const PerValue<NodeId> producers = graph.producers();
  std::map<std::string, NodeId, std::less<>> makers;
  for (ValueId id : graph.values.ids())
    if (producers[id].valid()) makers.emplace(graph.value(id).name, producers[id]);
  std::set<std::vector<NodeId>> held;  // regions that have been lowered
  for (int turn = 0;; ++turn) {
    settled.groups = group_nodes(graph, claimed, barriers);
    std::map<int, std::vector<NodeId>> members;
    for (NodeId n : settled.groups.ids()) {
      claimed[n] = settled.groups[n] >= 0;
      if (claimed[n]) members[settled.groups[n]].push_back(n);
    }
    bool all_held = true;
    for (const auto& [group, nodes] : members) {
      if (held.contains(nodes)) continue;
      std::string culprit;
      const Status tried = try_region(region_graph(graph, settled.groups, group), tf32, culprit);
      if (tried.ok()) {
        held.insert(nodes);
        continue;
      }
      all_held = false;
      const auto maker = makers.find(culprit);
      const bool one = turn < kMostNodes && maker != makers.end() && settled.groups[maker->second] == group;
      if (one) {
        claimed[maker->second] = false;
      } else {
        for (NodeId n : nodes) claimed[n] = false;
      }
      settled.refusals.push_back(
          format("{} not claimed: {}",
                 one ? graph.nodes[maker->second].label(graph) + " is" : format("{} nodes are", nodes.size()),
                 tried.message()));
    }
    if (all_held) return settled;
  }
}

}  // namespace tenon::cuda
