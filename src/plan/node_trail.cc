#include "plan/node_trail.h"

#include <algorithm>
#include <memory>
#include <unordered_map>
#include <utility>

#include "plan/node_origins.h"
#include "plan/regions.h"

namespace tenon {

std::span<const ValueId> NodeTrail::Values::of(int64_t number) const {
  const size_t begin = number == 0 ? 0 : ends[number - 1];
  return std::span<const ValueId>(ids).subspan(begin, ends[number] - begin);
}

NodeTrail::NodeTrail(const Graph& model) : entries_(model.nodes.size()) {
  shown_.reserve(entries_.size());
  reads_.ends.reserve(entries_.size());
  outputs_.ends.reserve(entries_.size());
  for (NodeId id : model.nodes.ids()) {
    const Node& node = model.nodes[id];
    Entry& entry = entries_[id.index()];
    entry.op_type = node.op_type;
    entry.domain = node.domain;
    entry.has_name = !node.name.empty();
    shown_.push_back(entry.has_name ? node.name : node.label(model));
    reads_.ids.insert(reads_.ids.end(), node.inputs.begin(), node.inputs.end());
    for (const Attribute& attribute : node.attributes)
      if (attribute.graph)
        for (const auto& [outer, inner] : attribute.graph->captures) reads_.ids.push_back(outer);
    outputs_.ids.insert(outputs_.ids.end(), node.outputs.begin(), node.outputs.end());
    reads_.ends.push_back(reads_.ids.size());
    outputs_.ends.push_back(outputs_.ids.size());
  }
}

void NodeTrail::folded(std::string_view pass, const Graph& graph) {
  for (int64_t n = 0; n < std::ssize(entries_); ++n) {
    const std::span<const ValueId> outputs = outputs_.of(n);
    const auto is_gone = [&](ValueId id) { return id == kNoValue || graph.value(id).constant != nullptr; };
    if (outputs.empty() || !std::all_of(outputs.begin(), outputs.end(), is_gone)) continue;
    entries_[n].is_gone = true;
    entries_[n].fate = Fate::kFolded;
    changes_.push_back({n, pass});
  }
}

void NodeTrail::mark(Graph& graph) {
  PerValue<int64_t> made_by(graph.values.size(), -1);
  for (int64_t n = 0; n < std::ssize(entries_); ++n)
    for (ValueId id : outputs_.of(n))
      if (id != kNoValue) made_by[id] = n;
  const auto first_output = [](const Node& node) {
    const auto made = std::find_if(node.outputs.begin(), node.outputs.end(), [](ValueId id) { return id != kNoValue; });
    return made != node.outputs.end() ? *made : kNoValue;
  };
  // A region's body has values of its own, with the names that they have in the model.
  std::unordered_map<std::string_view, int64_t> made_as;
  const auto number_in_region = [&](const Graph& body, const Node& node) {
    if (made_as.empty())
      for (ValueId id : graph.values.ids())
        if (made_by[id] >= 0) made_as.emplace(graph.value(id).name, made_by[id]);
    const ValueId made = first_output(node);
    const auto found = made != kNoValue ? made_as.find(body.value(made).name) : made_as.end();
    return found != made_as.end() ? found->second : -1;
  };
  const auto texts = std::make_shared<std::vector<std::string>>(std::move(shown_));
  const auto names = std::make_shared<Constant>();
  names->owner = texts;
  names_ = names;
  for (Node& node : graph.nodes) {
    if (is_region(node)) {
      std::vector<int64_t> numbers;
      const Graph& body = region_body(node);
      for (const Node& inner : body.nodes) {
        const int64_t number = number_in_region(body, inner);
        if (number >= 0) numbers.push_back(number);
      }
      add_origins(node, std::move(numbers), names_);
    } else if (const ValueId made = first_output(node); made != kNoValue && made_by[made] >= 0) {
      add_origins(node, {made_by[made]}, names_);
    }
  }
  mark_bodies(graph, *texts);
  names->strings = *texts;
}

void NodeTrail::mark_bodies(Graph& graph, std::vector<std::string>& names) const {
  for (Node& node : graph.nodes) {
    if (is_region(node)) continue;  // an EP has compiled it
    for (Attribute& attribute : node.attributes.edit_bodies()) {
      if (!attribute.graph) continue;
      if (attribute.graph.use_count() > 1) attribute.graph = std::make_shared<Graph>(*attribute.graph);
      for (Node& inner : attribute.graph->nodes) {
        add_origins(inner, {std::ssize(names)}, names_);
        names.push_back(inner.name.empty() ? inner.label(*attribute.graph) : inner.name);
      }
      mark_bodies(*attribute.graph, names);
    }
  }
}

std::span<const int64_t> NodeTrail::main_only(std::span<const int64_t> numbers) const {
  const auto end = std::lower_bound(numbers.begin(), numbers.end(), std::ssize(entries_));
  return numbers.first(static_cast<size_t>(end - numbers.begin()));
}

bool NodeTrail::stays_together(int64_t number, std::span<const int64_t> numbers) const {
  const std::vector<int64_t>& together = entries_[number].together;
  if (together.empty()) return numbers.size() == 1;
  return std::equal(numbers.begin(), numbers.end(), together.begin(), together.end());
}

bool NodeTrail::is_as_before(const Graph& graph) {
  if (names_ == nullptr) return false;
  size_t at = 0;
  bool same = true;
  for (const Node& node : graph.nodes) {
    const std::span<const int64_t> numbers = origins_of(node);
    // A hash has the sign bit, which no number has.
    int64_t held = numbers.empty() ? -1 : numbers[0];
    if (numbers.size() > 1) {
      uint64_t mixed = numbers.size();
      for (const int64_t number : numbers) mixed = (mixed ^ static_cast<uint64_t>(number)) * 0x9E3779B97F4A7C15u;
      held = static_cast<int64_t>(mixed | uint64_t{1} << 63);
    }
    if (at == held_.size()) held_.push_back(held), same = false;
    same = same && held_[at] == held;
    held_[at++] = held;
  }
  same = same && at == held_.size();
  held_.resize(at);
  return same;
}

void NodeTrail::after(std::string_view pass, const Graph& graph) {
  if (is_as_before(graph)) return;
  struct Holder {
    const Node* node = nullptr;
    std::span<const int64_t> numbers;
  };
  std::vector<Holder> holders(entries_.size());
  for (const Node& node : graph.nodes) {
    const std::span<const int64_t> numbers = origins_of(node);
    for (const int64_t number : numbers)
      if (number < std::ssize(holders)) holders[number] = {&node, numbers};
  }
  std::vector<int64_t> gone;
  for (int64_t n = 0; n < std::ssize(entries_); ++n) {
    Entry& entry = entries_[n];
    if (entry.is_gone) continue;
    const Holder& holder = holders[n];
    if (holder.node == nullptr) {
      entry.is_gone = true;
      changes_.push_back({n, pass});
      gone.push_back(n);
      continue;
    }
    if (holder.numbers.size() == 1 && entry.together.empty()) continue;
    const std::span<const int64_t> together = main_only(holder.numbers);
    if (stays_together(n, together)) continue;
    if (!is_region(*holder.node) && !pass.empty()) changes_.push_back({n, pass});
    entry.together.assign(together.begin(), together.end());
  }
  if (!gone.empty()) leave(gone, graph);
}

void NodeTrail::find_readers(size_t values) {
  if (!readers_.empty()) return;
  readers_.resize(entries_.size());
  PerValue<int64_t> made_by(values, -1);
  for (int64_t n = 0; n < std::ssize(entries_); ++n)
    for (ValueId id : outputs_.of(n))
      if (id != kNoValue) made_by[id] = n;
  for (int64_t n = 0; n < std::ssize(entries_); ++n)
    for (ValueId id : reads_.of(n))
      if (id != kNoValue && made_by[id] >= 0) readers_[made_by[id]].push_back(n);
  reads_ = {};
}

void NodeTrail::renumber(const PerValue<ValueId>& moved) {
  find_readers(moved.size());
  for (ValueId& id : outputs_.ids)
    if (id != kNoValue) id = moved[id];
}

void NodeTrail::leave(std::span<const int64_t> gone, const Graph& graph) {
  find_readers(graph.values.size());
  // Readers come after what they read, so that their fates are known first.
  for (auto at = gone.rbegin(); at != gone.rend(); ++at) {
    const std::span<const ValueId> outputs = outputs_.of(*at);
    const bool constant = std::all_of(outputs.begin(), outputs.end(), [&](ValueId id) {
      return id == kNoValue || graph.value(id).constant != nullptr;
    });
    const bool is_output = std::any_of(outputs.begin(), outputs.end(), [&](ValueId id) {
      return id != kNoValue && std::find(graph.outputs.begin(), graph.outputs.end(), id) != graph.outputs.end();
    });
    if (constant) {
      entries_[*at].fate = Fate::kFolded;
    } else {
      entries_[*at].fate = is_output || still_read(*at) ? Fate::kBypassed : Fate::kUnused;
    }
  }
}

// Whether a value of a removed node is still wanted: by a reader that is there, or by one that was bypassed and is
// read.
bool NodeTrail::still_read(int64_t number) const {
  return std::any_of(readers_[number].begin(), readers_[number].end(), [&](int64_t reader) {
    return !entries_[reader].is_gone || entries_[reader].fate == Fate::kBypassed;
  });
}

std::vector<PlanReport::ModelNode> NodeTrail::report(const Plan& plan) const {
  PerNode<StepId> step_of(plan.graph.nodes.size());
  for (StepId s : plan.steps.ids()) step_of[plan.steps[s].node] = s;
  std::vector<PlanReport::ModelNode> nodes(entries_.size());
  for (size_t n = 0; n < nodes.size(); ++n) {
    const Entry& entry = entries_[n];
    const std::string& shown = names_->strings[n];
    nodes[n].op_type = entry.op_type;
    nodes[n].domain = entry.domain;
    if (entry.has_name) nodes[n].name = shown;
    const Node named{.name = nodes[n].name, .op_type = entry.op_type, .domain = entry.domain};
    nodes[n].label = entry.has_name ? named.label(plan.graph) : shown;
    nodes[n].fate = entry.is_gone ? entry.fate : Fate::kUnused;
  }
  for (const Change& change : changes_) {
    std::vector<std::string>& passes = nodes[change.number].passes;
    // A node that has gone names only the pass that it left in.
    if (entries_[change.number].is_gone) passes.clear();
    if (!change.pass.empty()) passes.emplace_back(change.pass);
  }
  const auto each = [&](const Graph& graph, const auto& put) {
    for (NodeId n : graph.nodes.ids()) {
      const std::span<const int64_t> numbers = main_only(origins_of(graph.nodes[n]));
      for (const int64_t number : numbers) put(n, numbers.size(), nodes[number]);
    }
  };
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
