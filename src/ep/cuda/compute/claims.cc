#include "ep/cuda/compute/claims.h"

#include <algorithm>

#include "ep/cuda/compute/lowering.h"
#include "ep/cuda/compute/quantize.h"
#include "ep/cuda/compute/region.h"
#include "ep/cuda/compute/rewrites.h"
#include "ops/shape_inference.h"

namespace tenon::cuda {

namespace {

// A graph of this node alone, its run-time inputs as inputs.
Graph alone(const Graph& graph, const Node& node) {
  Graph single;
  single.opsets = graph.opsets;
  Node copy = node;
  std::vector<std::pair<ValueId, ValueId>> made;
  const auto map = [&](ValueId id) {
    if (id == kNoValue) return id;
    for (const auto& [from, to] : made)
      if (from == id) return to;
    const ValueId to = single.add_value(graph.value(id));
    made.emplace_back(id, to);
    return to;
  };
  for (ValueId& id : copy.inputs) {
    const bool known = id == kNoValue || graph.value(id).constant != nullptr ||
                       std::any_of(made.begin(), made.end(), [&](const auto& pair) { return pair.first == id; });
    id = map(id);
    if (!known) single.inputs.push_back(id);
  }
  for (ValueId& id : copy.outputs) {
    id = map(id);
    if (id != kNoValue) single.outputs.push_back(id);
  }
  single.nodes.push_back(std::move(copy));
  return single;
}

// Numbers instead of symbols: any that fit will do, because what is refused depends on ranks, types and attributes.
// Where ranks are unknown too, the first input has `rank` and the others have `further`.
void try_sizes(Graph& graph, int64_t size, size_t rank, size_t further) {
  for (ValueId id : graph.inputs) {
    Value& value = graph.value(id);
    if (!value.has_rank) {
      value.has_rank = true;
      value.dims.assign(id == graph.inputs.front() ? rank : further, Dim{});
    }
    // No tensor becomes one that no device could have. Constants fit channels and the last dimension of a tensor.
    constexpr int64_t kSmall = 8, kLargeImage = 64;
    const size_t dimensions = value.dims.size();
    for (size_t axis = 0; axis < dimensions; ++axis) {
      const bool fitted = dimensions <= 4 && (size <= kLargeImage || axis == 1 || axis + 1 == dimensions);
      Dim& dim = value.dims[axis];
      if (!dim.known()) dim = {.value = fitted ? size : std::min(size, kSmall), .symbol = {}};
    }
  }
}

// Sizes to try: a likely one, those that other dimensions of the node's inputs have, which may have to fit, and some
// that much has (triples and pairs of coordinates, what is repeated).
std::vector<int64_t> sizes_to_try(const Graph& graph) {
  constexpr size_t kMost = 10;
  constexpr int64_t kLargest = 1024;
  std::vector<int64_t> sizes = {64};
  const auto add = [&](int64_t size) {
    if (sizes.size() < kMost && size >= 1 && size <= kLargest &&
        std::find(sizes.begin(), sizes.end(), size) == sizes.end())
      sizes.push_back(size);
  };
  for (const Value& value : graph.values)
    for (const Dim& dim : value.dims)
      if (dim.value > 3) add(dim.value);
  add(3);
  add(2);
  add(1);
  return sizes;
}

bool all_known(const Graph& graph) {
  return std::all_of(graph.values.begin(), graph.values.end(), [](const Value& value) { return value.fully_known(); });
}

Status lower_alone(Graph& single) {
  TENON_TRY(run_rewrites(single));
  TENON_TRY(infer_shapes(single));
  for (const Node& part : single.nodes) TENON_TRY(can_lower(single, part));
  // A size that an input's value gives is known in a region, where that follows from shapes.
  if (!all_known(single)) return Status();
  return lower(single, {}).status();
}

// Lowers the node by itself: what is refused then is refused in a region too.
Status try_alone(const Graph& graph, const Node& node) {
  Graph single = alone(graph, node);
  if (all_known(single)) return lower_alone(single);
  // With its sizes a rewrite may still make something else of it.
  TENON_TRY(can_lower(graph, node));
  const bool ranked =
      std::all_of(single.inputs.begin(), single.inputs.end(), [&](ValueId id) { return single.value(id).has_rank; });
  // Trial sizes may contradict each other, which says nothing. Ranks that nobody knows have to be served whatever they
  // are, as far as they fit.
  Status refused;
  const auto fits = [&](int64_t size, size_t rank, size_t further) {
    Graph trial = single;
    try_sizes(trial, size, rank, further);
    if (!infer_shapes(trial).ok() || !all_known(trial)) return false;
    const Status lowered = lower_alone(trial);
    if (lowered.code() == StatusCode::kUnsupported) refused = lowered;
    return lowered.ok();
  };
  // The first sizes that fit decide: ones may take what no other size does.
  for (const int64_t size : sizes_to_try(single)) {
    bool fitted = false;
    if (ranked) {
      fitted = fits(size, 0, 0);
    } else {
      for (size_t rank : {4, 3, 2, 1, 5})
        for (size_t further : {rank, size_t{1}, size_t{0}}) fitted = fits(size, rank, further) || fitted;
    }
    if (fitted && ranked) return Status();
    if (!refused.ok()) return refused;
    if (fitted) return Status();
  }
  return Status();
}

// Nodes of a shape take values of any type, but not of none that is known: a region's tensors have sizes.
bool has_types(const Graph& graph, const Node& node) {
  const auto known = [&](ValueId id) {
    return id == kNoValue || (graph.value(id).is_tensor && graph.value(id).type != DataType::kUndefined);
  };
  return std::all_of(node.inputs.begin(), node.inputs.end(), known) &&
         std::all_of(node.outputs.begin(), node.outputs.end(), known);
}

bool is_whole(DataType type) { return type == DataType::kInt64 || type == DataType::kInt32 || type == DataType::kBool; }

// Operators that sizes go through. Floats count among sizes where they are few: factors of a Resize, roots of a depth.
bool is_size_arithmetic(const Graph& graph, const Node& node) {
  static constexpr std::string_view kEither[] = {"Add",     "Sub",     "Mul",       "Div",    "Min",     "Max",
                                                 "Neg",     "Abs",     "Gather",    "Concat", "Slice",   "Transpose",
                                                 "Squeeze", "Reshape", "Unsqueeze", "Where",  "Identity"};
  static constexpr std::string_view kWhole[] = {
      "Shape",   "Size",           "Mod",       "And", "Or", "Xor", "Not", "Less", "Equal", "LessOrEqual",
      "Greater", "GreaterOrEqual", "ReduceProd"};
  static constexpr std::string_view kFloats[] = {"Floor", "Ceil", "Round", "Sqrt"};
  static constexpr std::string_view kFill[] = {"Cast", "Constant", "ConstantOfShape", "Expand", "Range"};
  constexpr int64_t kFew = 64;
  const auto is_in = [&](std::span<const std::string_view> names) {
    return std::find(names.begin(), names.end(), node.op_type) != names.end();
  };
  const Value& made = graph.value(node.outputs[0]);
  if (is_in(kFill)) return true;
  if (made.fully_known() && made.shape().element_count() > kMostOnHost) return false;
  if (is_whole(made.type)) return is_in(kEither) || is_in(kWhole);
  const bool few = made.has_rank && (made.dims.empty() ||
                                     (made.dims.size() == 1 && (!made.dims[0].known() || made.dims[0].value <= kFew)));
  return made.type == DataType::kFloat && few && (is_in(kEither) || is_in(kFloats));
}

// Values that follow from shapes alone, numbers once the shapes are, and the nodes that compute them.
// Dequantised weights are such values too: constants of no shape.
struct ShapeParts {
  PerNode<bool> nodes;
  PerValue<bool> values, weights;
};

ShapeParts find_shape_parts(const Graph& graph) {
  ShapeParts parts{.nodes = PerNode<bool>(graph.nodes.size()),
                   .values = PerValue<bool>(graph.values.size()),
                   .weights = PerValue<bool>(graph.values.size())};
  for (ValueId id : graph.values.ids()) parts.values[id] = graph.value(id).constant != nullptr;
  for (NodeId n : graph.nodes.ids()) {
    const Node& node = graph.nodes[n];
    if (!node.domain.empty() || node.outputs.size() != 1 || node.outputs[0] == kNoValue) continue;
    if (can_dequantize_on_host(graph, node)) {
      const ValueId out = node.outputs[0];
      parts.nodes[n] = parts.values[out] = parts.weights[out] = true;
      continue;
    }
    const bool follows = node.op_type == "Shape" || node.op_type == "Size" ||
                         std::all_of(node.inputs.begin(), node.inputs.end(),
                                     [&](ValueId id) { return id == kNoValue || parts.values[id]; });
    if (!follows || !is_size_arithmetic(graph, node)) continue;
    parts.nodes[n] = true;
    parts.values[node.outputs[0]] = true;
  }
  return parts;
}

// Whether the node must know the value of this input before anything runs.
bool needs_value(const ShapeParts& parts, NodeId n, const Node& node, size_t input) {
  if (shape_depends_on_value(node, input) || parts.weights[node.inputs[input]]) return true;
  return parts.nodes[n] && node.op_type != "Shape" && node.op_type != "Size";
}

// Takes back claims until none needs a size from outside of its group, nor makes one that is read there: a size is
// better computed where it is read. True where a claim was taken back.
bool keep_sizes_inside(const Graph& graph, const ShapeParts& parts, const PerValue<NodeId>& producers,
                       const PerNode<int>& groups, PerNode<bool>& claimed) {
  PerValue<bool> read_outside(graph.values.size(), false);
  for (ValueId id : graph.outputs) read_outside[id] = true;
  const PerNode<bool> before = claimed;
  for (NodeId n : graph.nodes.ids()) {
    const Node& node = graph.nodes[n];
    for (size_t i = 0; i < node.inputs.size(); ++i) {
      const ValueId id = node.inputs[i];
      if (id == kNoValue || graph.value(id).constant != nullptr) continue;
      const NodeId p = producers[id];
      if (p.valid() && before[p] && before[n] && groups[p] == groups[n]) continue;
      read_outside[id] = true;
      if (needs_value(parts, n, node, i)) claimed[n] = false;
    }
  }
  for (NodeId n : graph.nodes.ids())
    if (parts.nodes[n] && read_outside[graph.nodes[n].outputs[0]]) claimed[n] = false;
  return claimed != before;
}

// How often a path to the node changes between claimed and not: claimed nodes of one level are convex.
PerNode<int> find_levels(const Graph& graph, const ShapeParts& parts, const PerValue<NodeId>& producers,
                         const PerNode<bool>& claimed, const PerNode<bool>& barriers) {
  PerNode<int> levels(graph.nodes.size(), 0);
  int base = 0, highest = 0;
  for (NodeId n : graph.nodes.ids()) {
    int level = barriers[n] ? highest + 1 : base;
    for (ValueId id : graph.nodes[n].inputs) {
      const NodeId p = id != kNoValue ? producers[id] : kNoNode;
      if (!p.valid()) continue;
      level = std::max(level, levels[p] + (claimed[p] != claimed[n] ? 1 : 0));
    }
    levels[n] = level;
    highest = std::max(highest, level);
    if (barriers[n]) base = level + 1;
  }
  // Sizes go where they are read, as far as that is one place.
  constexpr int kNobody = -1, kSeveral = -2;
  PerValue<int> reader(graph.values.size(), kNobody);
  for (ValueId id : graph.outputs) reader[id] = kSeveral;
  for (size_t left = graph.nodes.size(); left-- > 0;) {
    const NodeId n(left);
    const Node& node = graph.nodes[n];
    if (parts.nodes[n] && claimed[n] && reader[node.outputs[0]] >= 0) levels[n] = reader[node.outputs[0]];
    for (ValueId id : node.inputs) {
      if (id == kNoValue) continue;
      int& at = reader[id];
      at = claimed[n] && (at == kNobody || at == levels[n]) ? levels[n] : kSeveral;
    }
  }
  return levels;
}

}  // namespace

PerNode<bool> claim_nodes(const Graph& graph) {
  const ShapeParts parts = find_shape_parts(graph);
  const Graph folded = with_dequantized_weights(graph);
  PerNode<bool> claimed(graph.nodes.size(), false);
  for (NodeId n : graph.nodes.ids()) {
    const Node& node = graph.nodes[n];
    bool sizes_known = true;
    for (size_t i = 0; i < node.inputs.size(); ++i)
      if (node.inputs[i] != kNoValue && shape_depends_on_value(node, i))
        sizes_known = sizes_known && parts.values[node.inputs[i]];
    claimed[n] = has_types(graph, node) && (parts.nodes[n] || (sizes_known && try_alone(folded, node).ok()));
  }
  const PerNode<int> together(graph.nodes.size(), 0);
  const PerValue<NodeId> producers = graph.producers();
  while (keep_sizes_inside(graph, parts, producers, together, claimed)) {
  }
  return claimed;
}

PerNode<int> group_nodes(const Graph& graph, PerNode<bool> claimed, const PerNode<bool>& barriers) {
  const ShapeParts parts = find_shape_parts(graph);
  const PerValue<NodeId> producers = graph.producers();
  PerNode<int> levels;
  do {
    levels = find_levels(graph, parts, producers, claimed, barriers);
  } while (keep_sizes_inside(graph, parts, producers, levels, claimed));
  // Levels without gaps.
  std::vector<int> used;
  for (NodeId n : claimed.ids())
    if (claimed[n]) used.push_back(levels[n]);
  std::sort(used.begin(), used.end());
  used.erase(std::unique(used.begin(), used.end()), used.end());
  PerNode<int> groups(claimed.size(), -1);
  for (NodeId n : claimed.ids())
    if (claimed[n]) groups[n] = static_cast<int>(std::lower_bound(used.begin(), used.end(), levels[n]) - used.begin());
  return groups;
}

}  // namespace tenon::cuda
