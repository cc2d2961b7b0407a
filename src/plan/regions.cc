#include "plan/regions.h"

#include <algorithm>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "ops/attributes.h"

namespace tenon {

namespace {

// Every value of the enclosing graph that `node` reads: its inputs, and what its subgraphs capture.
template <typename Use>
void for_each_read(const Node& node, Use&& use) {
  for (ValueId id : node.inputs) {
    if (id != kNoValue) use(id);
  }
  for (const Attribute& attribute : node.attributes) {
    if (!attribute.graph) continue;
    for (const auto& [outer, inner] : attribute.graph->captures) use(outer);
  }
}

// Takes the nodes of one claim out of a graph and into a body of their own.
class BodyBuilder {
 public:
  BodyBuilder(const Graph& graph, const Claim& claim, const PerValue<bool>& read_outside)
      : graph_(graph), claim_(claim), read_outside_(read_outside) {
    body_.name = graph.name;
    body_.opsets = graph.opsets;
  }

  void build() {
    for (NodeId n : claim_.nodes) {
      for (ValueId id : graph_.nodes[n].outputs) {
        if (id != kNoValue) made_.insert(id);
      }
    }
    for (NodeId n : claim_.nodes) add_node(graph_.nodes[n]);
    if (!claim_.drop_constants) {
      for (ValueId id : constants_) {
        outer_inputs_.push_back(id);
        body_.inputs.push_back(inner(id));
      }
    }
    for (NodeId n : claim_.nodes) {
      for (ValueId id : graph_.nodes[n].outputs) {
        // A kernel may write all that its node names, read or not, as in ONNX Runtime.
        if (id == kNoValue || (claim_.fused && !read_outside_[id])) continue;
        outer_outputs_.push_back(id);
        body_.outputs.push_back(inner(id));
      }
    }
  }

  Graph& body() { return body_; }
  std::vector<ValueId>& outer_inputs() { return outer_inputs_; }
  std::vector<ValueId>& outer_outputs() { return outer_outputs_; }

 private:
  ValueId inner(ValueId outer) {
    const auto [slot, fresh] = inner_.emplace(outer, kNoValue);
    if (fresh) slot->second = body_.add_value(graph_.value(outer));
    return slot->second;
  }

  void read(ValueId outer) {
    if (made_.contains(outer) || !read_.insert(outer).second) return;
    if (graph_.value(outer).constant) {
      constants_.push_back(outer);
      return;
    }
    outer_inputs_.push_back(outer);
    body_.inputs.push_back(inner(outer));
  }

  void add_node(const Node& node) {
    for_each_read(node, [this](ValueId id) { read(id); });
    Node copy = node;
    for (ValueId& id : copy.inputs) id = id == kNoValue ? kNoValue : inner(id);
    for (ValueId& id : copy.outputs) id = id == kNoValue ? kNoValue : inner(id);
    for (Attribute& attribute : copy.attributes.edit_bodies()) {
      if (!attribute.graph) continue;
      attribute.graph = std::make_shared<Graph>(*attribute.graph);
      for (auto& capture : attribute.graph->captures) capture.first = inner(capture.first);
    }
    body_.nodes.push_back(std::move(copy));
  }

  const Graph& graph_;
  const Claim& claim_;
  const PerValue<bool>& read_outside_;
  Graph body_;
  std::unordered_map<ValueId, ValueId> inner_;
  std::unordered_set<ValueId> made_, read_;
  std::vector<ValueId> constants_, outer_inputs_, outer_outputs_;
};

}  // namespace

bool is_region(const Node& node) { return node.op_type == "Region" && node.domain == "tenon"; }

EpId ep_of(const Node& node) { return is_region(node) ? EpId(Attributes(node).integer("provider")) : kCpuEp; }

const Graph& region_body(const Node& node) { return *Attributes(node).graph("body"); }

Partition::Partition(const Graph& graph)
    : graph_(graph),
      taken_(std::make_unique<bool[]>(graph.nodes.size())),
      group_(graph.nodes.size()),
      readers_(graph.nodes.size()) {
  const PerValue<NodeId> producer = graph.producers();
  for (NodeId n : graph.nodes.ids()) {
    for_each_read(graph.nodes[n], [&](ValueId id) {
      const NodeId from = producer[id];
      if (from.valid()) readers_[from].push_back(n);
    });
  }
}

Partition::~Partition() = default;

IdSpan<NodeId, const bool> Partition::taken() const {
  return IdSpan<NodeId, const bool>({taken_.get(), group_.size()});  // build() changes the graph's number
}

Status Partition::add(EpId ep, const std::string& ep_name, std::vector<Claim> claims) {
  for (Claim& claim : claims) {
    if (!claim.fused && claim.nodes.size() > 1) {
      return device_error(
          "The EP \"{}\" claims {} nodes for one kernel, which runs one node; several have to be fused.", ep_name,
          claim.nodes.size());
    }
    std::sort(claim.nodes.begin(), claim.nodes.end());
    if (const std::string why = problem(claim); !why.empty()) {
      dropped_.push_back(format("A claim of the EP \"{}\"{} on {} nodes is dropped: {}.", ep_name,
                                claim.name.empty() ? "" : format(" (\"{}\")", claim.name), claim.nodes.size(), why));
      continue;
    }
    for (NodeId node : claim.nodes) {
      taken_[node.index()] = true;
      group_[node] = grants_.end_id();
    }
    grants_.push_back({ep, std::move(claim)});
  }
  return {};
}

std::string Partition::problem(const Claim& claim) const {
  if (claim.nodes.empty()) return "it has no nodes";
  for (size_t i = 0; i < claim.nodes.size(); ++i) {
    const NodeId node = claim.nodes[i];
    if (!graph_.nodes.contains(node))
      return format("node {} does not exist, the graph has {}", node, graph_.nodes.size());
    const std::string label = graph_.nodes[node].label(graph_);
    if (i > 0 && claim.nodes[i - 1] == node) return format("it names {} twice", label);
    if (taken_[node.index()]) return format("{} is already claimed", label);
  }
  if (const NodeId through = way_back(claim); through.valid()) {
    return format("it would depend on itself through {}, which is outside", graph_.nodes[through].label(graph_));
  }
  return {};
}

// Walks what depends on the claim, whole grants at a time: those run as one node, too.
NodeId Partition::way_back(const Claim& claim) const {
  if (claim.nodes.size() < 2) return kNoNode;
  PerNode<bool> inside(graph_.nodes.size(), false), seen(graph_.nodes.size(), false);
  for (NodeId node : claim.nodes) inside[node] = true;
  std::vector<NodeId> stack;
  const auto visit = [&](NodeId node) {
    if (inside[node] || seen[node]) return;
    if (!group_[node].valid()) {
      seen[node] = true;
      stack.push_back(node);
      return;
    }
    for (NodeId member : grants_[group_[node]].claim.nodes) {
      seen[member] = true;
      stack.push_back(member);
    }
  };
  for (NodeId node : claim.nodes) {
    for (NodeId reader : readers_[node]) visit(reader);
  }
  while (!stack.empty()) {
    const NodeId node = stack.back();
    stack.pop_back();
    for (NodeId reader : readers_[node]) {
      if (inside[reader]) return node;
      visit(reader);
    }
  }
  return kNoNode;
}

Result<std::vector<Region>> Partition::build(Graph& graph, int32_t first_region) const {
  std::vector<Region> regions;
  if (grants_.empty()) return regions;
  // A value is read outside its group when a node of another group, or the graph's caller, reads it.
  PerValue<bool> read_outside(graph.values.size(), false);
  const PerValue<NodeId> producer = graph.producers();
  for (NodeId n : graph.nodes.ids()) {
    for_each_read(graph.nodes[n], [&](ValueId id) {
      const NodeId from = producer[id];
      if (from.valid() && (!group_[from].valid() || group_[from] != group_[n])) read_outside[id] = true;
    });
  }
  for (ValueId id : graph.outputs) read_outside[id] = true;

  IdVector<GrantId, Node> region_nodes;
  for (GrantId g : grants_.ids()) {
    const Grant& grant = grants_[g];
    BodyBuilder builder(graph, grant.claim, read_outside);
    builder.build();
    Region region;
    region.id = first_region + g.value();
    region.name = grant.claim.name.empty() ? format("region {}", region.id) : grant.claim.name;
    region.fused = grant.claim.fused;
    region.drop_constants = grant.claim.fused && grant.claim.drop_constants;
    region.nodes = PerNode<NodeId>(grant.claim.nodes);
    region.body = std::move(builder.body());

    Node node;
    node.name = grant.claim.fused ? region.name : graph.nodes[grant.claim.nodes[0]].name;
    node.op_type = "Region";
    node.domain = "tenon";
    node.since_version = 1;
    node.inputs = std::move(builder.outer_inputs());
    node.outputs = std::move(builder.outer_outputs());
    node.set_int("provider", grant.ep.value());
    node.set_int("region", region.id);
    Attribute& body = node.attributes.edit().emplace_back();
    body.name = "body";
    body.kind = AttributeKind::kGraph;
    body.graph = std::make_shared<Graph>(region.body);
    region_nodes.push_back(std::move(node));
    regions.push_back(std::move(region));
  }
  // A region stands where its first node stood, unless it has to wait for more.
  PerNode<Node> nodes;
  for (NodeId n : graph.nodes.ids()) {
    const GrantId group = group_[n];
    if (!group.valid()) {
      nodes.push_back(std::move(graph.nodes[n]));
      continue;
    }
    if (grants_[group].claim.nodes[0] == n) nodes.push_back(std::move(region_nodes[group]));
  }
  graph.nodes = std::move(nodes);
  TENON_TRY_CONTEXT(graph.sort_topologically(), "after {} regions were put into the graph", grants_.size());
  return regions;
}

}  // namespace tenon
