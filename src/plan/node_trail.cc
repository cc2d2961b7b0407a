#include "plan/node_trail.h"

#include <algorithm>
#include <iterator>
#include <string>
#include <unordered_map>
#include <utility>

#include "plan/pass_rewriter.h"
#include "plan/regions.h"

namespace tenon {

namespace {

using Fate = PlanReport::ModelNode::Fate;

// The names of values are unique in a model's graph, and bodies of regions keep them.
std::string_view first_output(const Graph& graph, const Node& node) {
  for (ValueId id : node.outputs)
    if (id != kNoValue) return graph.value(id).name;
  return {};
}

}  // namespace

std::vector<int64_t> origins_of(const Node& node) {
  std::vector<int64_t> numbers;
  if (const Attribute* nodes = node.find(kModelNodes))
    std::copy_if(nodes->ints.begin(), nodes->ints.end(), std::back_inserter(numbers), [](int64_t n) { return n >= 0; });
  return numbers;
}

NodeTrail::NodeTrail(const Graph& model) {
  const PerValue<NodeId> producer = model.producers();
  entries_.resize(model.nodes.size());
  for (NodeId id : model.nodes.ids()) {
    const Node& node = model.nodes[id];
    const size_t n = id.index();
    Entry& entry = entries_[n];
    entry.node = {.label = node.label(model), .name = node.name, .op_type = node.op_type, .domain = node.domain};
    entry.outputs = node.outputs;
    entry.together = {static_cast<int64_t>(n)};
    const auto read = [&](ValueId value) {
      if (value != kNoValue && producer[value].valid())
        entries_[producer[value].index()].readers.push_back(static_cast<int32_t>(n));
    };
    for (ValueId value : node.inputs) read(value);
    for (const Attribute& attribute : node.attributes)
      if (attribute.graph)
        for (const auto& capture : attribute.graph->captures) read(capture.first);
  }
}

void NodeTrail::mark(Graph& graph) const {
  std::unordered_map<std::string_view, int64_t> made_by;
  made_by.reserve(entries_.size());
  for (size_t n = 0; n < entries_.size(); ++n)
    for (ValueId id : entries_[n].outputs)
      if (id != kNoValue) made_by.emplace(graph.value(id).name, static_cast<int64_t>(n));
  for (Node& node : graph.nodes) {
    Attribute origins{.name = std::string(kModelNodes), .kind = AttributeKind::kStrings};
    const auto add = [&](const Graph& in, const Node& one) {
      const auto found = made_by.find(first_output(in, one));
      if (found == made_by.end()) return;
      const PlanReport::ModelNode& named = entries_[static_cast<size_t>(found->second)].node;
      origins.ints.push_back(found->second);
      origins.strings.push_back(named.name.empty() ? named.label : named.name);
    };
    if (is_region(node)) {
      for (const Node& inner : region_body(node).nodes) add(region_body(node), inner);
    } else {
      add(graph, node);
    }
    if (!origins.ints.empty()) node.attributes.push_back(std::move(origins));
  }
}

// Whether a value of a removed node is still wanted: by a reader that is there, or by one that was bypassed and is
// read.
bool NodeTrail::still_read(const Entry& entry) const {
  return std::any_of(entry.readers.begin(), entry.readers.end(), [&](int32_t reader) {
    const Entry& other = entries_[static_cast<size_t>(reader)];
    return !other.is_gone || other.node.fate == Fate::kBypassed;
  });
}

void NodeTrail::after(std::string_view pass, const Graph& graph) {
  struct Holder {
    const Node* node = nullptr;
    const Attribute* origins = nullptr;
  };
  std::vector<Holder> holders(entries_.size());
  for (const Node& node : graph.nodes) {
    const Attribute* origins = node.find(kModelNodes);
    if (origins == nullptr) continue;
    for (const int64_t number : origins->ints)
      if (number >= 0) holders[static_cast<size_t>(number)] = {&node, origins};
  }
  std::vector<Entry*> gone;
  for (size_t n = 0; n < entries_.size(); ++n) {
    Entry& entry = entries_[n];
    if (entry.is_gone) continue;
    if (holders[n].node == nullptr) {
      entry.is_gone = true;
      entry.node.passes.clear();
      if (!pass.empty()) entry.node.passes.emplace_back(pass);
      gone.push_back(&entry);
      continue;
    }
    if (holders[n].origins->ints == entry.together) continue;
    std::vector<int64_t> together = origins_of(*holders[n].node);
    if (together == entry.together) continue;
    if (!is_region(*holders[n].node) && !pass.empty()) entry.node.passes.emplace_back(pass);
    entry.together = std::move(together);
  }
  // Readers come after what they read, so that their fates are known first.
  for (auto at = gone.rbegin(); at != gone.rend(); ++at) {
    Entry& entry = **at;
    const bool constant = std::all_of(entry.outputs.begin(), entry.outputs.end(), [&](ValueId id) {
      return id == kNoValue || graph.value(id).constant != nullptr;
    });
    const bool is_output = std::any_of(entry.outputs.begin(), entry.outputs.end(), [&](ValueId id) {
      return id != kNoValue && std::find(graph.outputs.begin(), graph.outputs.end(), id) != graph.outputs.end();
    });
    if (constant) {
      entry.node.fate = Fate::kFolded;
    } else {
      entry.node.fate = is_output || still_read(entry) ? Fate::kBypassed : Fate::kUnused;
    }
  }
}

std::vector<PlanReport::ModelNode> NodeTrail::report(const Plan& plan) const {
  PerNode<StepId> step_of(plan.graph.nodes.size());
  for (StepId s : plan.steps.ids()) step_of[plan.steps[s].node] = s;
  std::vector<PlanReport::ModelNode> nodes;
  nodes.reserve(entries_.size());
  for (const Entry& entry : entries_) nodes.push_back(entry.node);
  const auto each = [&](const Graph& graph, const auto& put) {
    for (NodeId n : graph.nodes.ids()) {
      const std::vector<int64_t> origins = origins_of(graph.nodes[n]);
      for (const int64_t number : origins) put(n, origins.size(), nodes[static_cast<size_t>(number)]);
    }
  };
  for (size_t n = 0; n < entries_.size(); ++n)
    if (!entries_[n].is_gone) nodes[n].fate = Fate::kUnused;
  if (plan.cut != nullptr)
    each(plan.cut->rest, [](NodeId, size_t, PlanReport::ModelNode& node) { node.fate = Fate::kLater; });
  each(plan.graph, [&](NodeId n, size_t together, PlanReport::ModelNode& node) {
    node.step = step_of[n].value();
    node.ep = node.step >= 0 ? ep_of(plan.graph.nodes[n]).value() : -1;
    node.fate = is_region(plan.graph.nodes[n]) ? Fate::kRegion
                : node.step < 0                ? Fate::kView
                : together > 1                 ? Fate::kFused
                                               : Fate::kStep;
  });
  return nodes;
}

}  // namespace tenon
