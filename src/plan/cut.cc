#include "plan/cut.h"

#include <algorithm>
#include <array>
#include <string_view>
#include <utility>

#include "graph/unused_values.h"
#include "ops/shape_inference.h"
#include "plan/control_flow.h"
#include "plan/regions.h"
#include "plan/views.h"

namespace tenon {

namespace {

enum class When : uint8_t { kNow, kRest };

// True if `holds` for every value of the graph that `node` reads: its inputs, and what its subgraphs capture.
template <typename Condition>
bool all_read(const Node& node, const Condition& holds) {
  if (!std::all_of(node.inputs.begin(), node.inputs.end(), holds)) return false;
  for (const Attribute& attribute : node.attributes) {
    if (!attribute.graph) continue;
    for (const auto& [outer, inner] : attribute.graph->captures) {
      if (!holds(outer)) return false;
    }
  }
  return true;
}

class Cutter {
 public:
  Cutter(Graph graph, std::span<const OutputSlot> output_slots, bool values_vary)
      : graph_(std::move(graph)),
        values_vary_(values_vary),
        output_slots_(output_slots.begin(), output_slots.end()),
        available_(graph_.values.size(), false),
        dynamic_(graph_.values.size(), false),
        needed_(graph_.values.size(), false),
        as_constant_(graph_.values.size(), false),
        when_(graph_.nodes.size(), When::kNow) {}

  Result<CutGraph> run() {
    for (ValueId id : graph_.values.ids()) available_[id] = graph_.value(id).constant != nullptr;
    for (ValueId id : graph_.inputs) available_[id] = true;
    for (NodeId n : graph_.nodes.ids()) TENON_TRY(sort(n));
    return split();
  }

 private:
  Status sort(NodeId n) {
    const Node& node = graph_.nodes[n];
    const auto ready = [&](ValueId id) { return id == kNoValue || available_[id]; };
    const auto known = [&](ValueId id) { return id == kNoValue || graph_.value(id).fully_known(); };
    if (!all_read(node, ready)) {
      when_[n] = When::kRest;
      return {};
    }
    if (std::all_of(node.outputs.begin(), node.outputs.end(), known)) {
      for (ValueId id : node.outputs) {
        if (id != kNoValue) available_[id] = true;
      }
      return {};
    }
    if (is_dynamic_operator(node) || (values_vary_ && reads_its_sizes(node))) {
      for (ValueId id : node.outputs) {
        if (id != kNoValue) dynamic_[id] = true;
      }
      reasons_.push_back({node.label(graph_), {}});
      return {};
    }
    when_[n] = When::kRest;
    bool found = false;
    for (size_t i = 0; i < node.inputs.size(); ++i) {
      const ValueId id = node.inputs[i];
      if (id == kNoValue || graph_.value(id).constant || !shape_depends_on_value(node, i)) continue;
      as_constant_[id] = true;
      found = true;
      reasons_.push_back({node.label(graph_), graph_.value(id).name});
    }
    if (found) return {};
    return unsupported("The shapes of the outputs of node {} cannot be found from its inputs.", node.label(graph_));
  }

  Result<CutGraph> split() {
    CutGraph result;
    bool any_rest = false;
    for (NodeId n : graph_.nodes.ids()) {
      if (when_[n] != When::kRest) continue;
      any_rest = true;
      (void)all_read(graph_.nodes[n], [&](ValueId id) {
        if (id != kNoValue && !graph_.value(id).constant) needed_[id] = true;
        return true;
      });
    }
    if (!any_rest) {
      result.now = std::move(graph_);
      drop_unused_values(result.now);
      result.output_slots = std::move(output_slots_);
      return result;
    }
    result.cut = std::make_unique<PlanCut>();
    PlanCut& cut = *result.cut;
    cut.reasons = std::move(reasons_);
    PerNode<Node> nodes = std::exchange(graph_.nodes, {});
    const std::vector<ValueId> outputs = std::exchange(graph_.outputs, {});
    PerValue<Value> values = std::exchange(graph_.values, {});
    cut.rest = graph_;
    cut.rest.inputs.clear();
    cut.rest.values = values_of_rest(nodes, values);
    result.now = std::move(graph_);
    Graph& now = result.now;
    now.values = std::move(values);
    const auto rest_count = std::count(when_.begin(), when_.end(), When::kRest);
    now.nodes.reserve(nodes.size() - static_cast<size_t>(rest_count));
    cut.rest.nodes.reserve(static_cast<size_t>(rest_count));
    for (NodeId n : nodes.ids()) {
      (when_[n] == When::kNow ? now : cut.rest).nodes.push_back(std::move(nodes[n]));
    }
    for (size_t i = 0; i < outputs.size(); ++i) {
      const bool here = available_[outputs[i]] || dynamic_[outputs[i]];
      (here ? now.outputs : cut.rest.outputs).push_back(outputs[i]);
      (here ? result.output_slots : cut.output_slots).push_back(output_slots_[i]);
    }
    for (ValueId id : now.values.ids()) {
      if (!needed_[id] || !(available_[id] || dynamic_[id])) continue;
      CutValue value;
      value.name = now.value(id).name;
      value.spec = spec_of(now.value(id));
      value.as_constant = as_constant_[id];
      cut.values.push_back(std::move(value));
      cut.rest.inputs.push_back(id);
      result.cut_values.push_back(id);
      now.outputs.push_back(id);
      result.output_slots.push_back(OutputSlot::none());
    }
    now.remove_dead_nodes();
    cut.rest.remove_dead_nodes();
    // Values that passes have folded away would stay as long as the plan; observers are given them by the part before
    // the cut.
    drop_unused_values(cut.rest, FoldedValues::kGo);
    const PerValue<ValueId> moved = drop_unused_values(now);
    for (ValueId& id : result.cut_values) id = moved[id];
    return result;
  }

  // Those that nodes of the rest make are taken out of `values`, those that they read are copied, and the others are
  // empty.
  PerValue<Value> values_of_rest(const PerNode<Node>& nodes, PerValue<Value>& values) const {
    PerValue<bool> read(values.size(), false), made(values.size(), false);
    for (NodeId n : nodes.ids()) {
      if (when_[n] != When::kRest) continue;
      (void)all_read(nodes[n], [&](ValueId id) {
        if (id != kNoValue) read[id] = true;
        return true;
      });
      for (ValueId id : nodes[n].outputs)
        if (id != kNoValue) made[id] = true;
    }
    PerValue<Value> rest(values.size());
    for (ValueId id : values.ids()) {
      if (made[id]) {
        rest[id] = std::move(values[id]);
      } else if (read[id]) {
        rest[id] = values[id];
      }
    }
    return rest;
  }

  // Its kernel finds the output's size from its inputs' values.
  static bool reads_its_sizes(const Node& node) {
    constexpr std::array<std::string_view, 5> kReaders = {"ConstantOfShape", "Expand", "Range", "Slice", "Tile"};
    return node.domain.empty() && std::find(kReaders.begin(), kReaders.end(), node.op_type) != kReaders.end();
  }

  Graph graph_;
  const bool values_vary_;
  std::vector<OutputSlot> output_slots_;
  PerValue<bool> available_, dynamic_, needed_, as_constant_;
  PerNode<When> when_;
  std::vector<CutReason> reasons_;
};

}  // namespace

bool is_dynamic_operator(const Node& node) {
  // Only the EP knows what its region will make of the sizes, and only running it what a body does.
  if (is_region(node) || is_control_flow(node)) return true;
  if (node.domain == "tenon") return node.op_type == "CacheUpdate" || node.op_type == "SearchEnd";
  if (node.domain == "com.microsoft") {
    return node.op_type == "BifurcationDetector" || node.op_type == "CropAndResize" ||
           node.op_type == "DynamicTimeWarping" || node.op_type == "Tokenizer";
  }
  if (node.domain == "ai.onnx.ml") return node.op_type == "CastMap";
  constexpr std::array<std::string_view, 9> kDynamic = {"Compress",         "ConcatFromSequence", "NonMaxSuppression",
                                                        "NonZero",          "OptionalGetElement", "SequenceAt",
                                                        "StringNormalizer", "StringSplit",        "Unique"};
  return node.domain.empty() && std::find(kDynamic.begin(), kDynamic.end(), node.op_type) != kDynamic.end();
}

Result<CutGraph> cut_graph(Graph graph, std::span<const OutputSlot> output_slots, bool values_vary) {
  return Cutter(std::move(graph), output_slots, values_vary).run();
}

}  // namespace tenon
