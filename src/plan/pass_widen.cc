// Turns float16 and bfloat16 computation into float32 computation, with a Cast at its edges.
#include <algorithm>
#include <functional>
#include <iterator>
#include <map>
#include <memory>
#include <optional>
#include <string_view>
#include <utility>

#include "graph/schema.h"
#include "ops/attributes.h"
#include "ops/float_types.h"
#include "plan/pass_rewriter.h"
#include "plan/passes.h"
#include "plan/regions.h"
#include "plan/widened.h"

namespace tenon {
namespace {

constexpr std::string_view kWidenedSuffixes[] = {":float32_of_float16", ":float32_of_bfloat16"};
constexpr DataType kWidenedTypes[] = {DataType::kFloat16, DataType::kBfloat16};

// How a node takes part.
enum class Part : uint8_t {
  kNone,     // reads and writes the model's types: regions, control flow, sequences, random numbers, bits
  kCompute,  // computes in float32
  kFollow,   // moves, tests or orders elements: in float32 where the first input's are
  kJoin,     // moves elements of several inputs: in float32 where any of them is
  kLook,     // reads types and shapes alone
  kCast,
};

struct PartRow {
  std::string_view op_type;
  Part part;
};

// Sorted by name; every other operator computes. Operators whose outputs' types do not follow from those of their
// inputs are none.
constexpr PartRow kParts[] = {
    {"ArgMax", Part::kFollow},
    {"ArgMin", Part::kFollow},
    {"Bernoulli", Part::kNone},
    {"BitCast", Part::kNone},
    {"Cast", Part::kCast},
    {"CastLike", Part::kCast},
    {"CenterCropPad", Part::kFollow},
    {"Compress", Part::kFollow},
    {"Concat", Part::kJoin},
    {"Constant", Part::kNone},
    {"ConstantOfShape", Part::kNone},
    {"DepthToSpace", Part::kFollow},
    {"Expand", Part::kFollow},
    {"EyeLike", Part::kNone},
    {"Flatten", Part::kFollow},
    {"Gather", Part::kFollow},
    {"GatherElements", Part::kFollow},
    {"GatherND", Part::kFollow},
    {"Identity", Part::kFollow},
    {"If", Part::kNone},
    {"IsInf", Part::kFollow},
    {"IsNaN", Part::kFollow},
    {"Loop", Part::kNone},
    {"Multinomial", Part::kNone},
    {"Pad", Part::kFollow},
    {"RandomNormal", Part::kNone},
    {"RandomNormalLike", Part::kNone},
    {"RandomUniform", Part::kNone},
    {"RandomUniformLike", Part::kNone},
    {"Reshape", Part::kFollow},
    {"ReverseSequence", Part::kFollow},
    {"Scan", Part::kNone},
    {"Scatter", Part::kFollow},
    {"ScatterElements", Part::kFollow},
    {"ScatterND", Part::kFollow},
    {"Shape", Part::kLook},
    {"Size", Part::kLook},
    {"Slice", Part::kFollow},
    {"SpaceToDepth", Part::kFollow},
    {"Split", Part::kFollow},
    {"Squeeze", Part::kFollow},
    {"TensorScatter", Part::kFollow},
    {"Tile", Part::kFollow},
    {"TopK", Part::kFollow},
    {"Transpose", Part::kFollow},
    {"Trilu", Part::kFollow},
    {"Unsqueeze", Part::kFollow},
    {"Where", Part::kJoin},
};

// Whether a value is float16 or bfloat16 in the model.
using IsNarrow = std::function<bool(ValueId)>;

// Does the schema let every input and output that is float16 or bfloat16 be float32 instead, the outputs by the type of
// an input?
bool can_be_float32(const Node& node, const IsNarrow& is_narrow) {
  const std::optional<Schema> schema = find_schema(node.domain, node.op_type, node.since_version);
  if (!schema) return false;  // a program's own operator, which has the types that it was made with
  std::vector<std::string_view> types;
  for (size_t i = 0; i < node.inputs.size(); ++i) {
    if (!is_narrow(node.inputs[i])) continue;
    const std::optional<SchemaParameter> input = schema->input(i);
    const std::optional<SchemaConstraint> allowed = input ? schema->find_constraint(input->type) : std::nullopt;
    if (!allowed || (allowed->tensor_types >> static_cast<int>(DataType::kFloat) & 1) == 0) return false;
    types.push_back(input->type);
  }
  for (size_t i = 0; i < node.outputs.size(); ++i) {
    if (!is_narrow(node.outputs[i])) continue;
    const std::optional<SchemaParameter> output = schema->output(i);
    if (!output) return false;
    // DequantizeLinear's output may have a type of its own, which an attribute says.
    if (node.op_type != "DequantizeLinear" && std::find(types.begin(), types.end(), output->type) == types.end())
      return false;
  }
  return true;
}

// A Resize that computes nothing but places.
bool copies_pixels(const Node& node) {
  return node.domain.empty() && node.op_type == "Resize" && node.inputs.size() > 1 &&
         Attributes(node).text("mode") == "nearest";
}

Part part_of(const Graph& graph, const Node& node, const IsNarrow& is_narrow) {
  if (is_region(node) || node.domain == "tenon") return Part::kNone;
  for (const Attribute& attribute : node.attributes)
    if (attribute.graph) return Part::kNone;
  const auto plain = [&](ValueId id) { return id == kNoValue || graph.value(id).is_tensor; };
  if (!std::all_of(node.inputs.begin(), node.inputs.end(), plain) ||
      !std::all_of(node.outputs.begin(), node.outputs.end(), plain))
    return Part::kNone;
  Part part = Part::kCompute;
  if (node.domain.empty()) {
    const auto* const row =
        std::lower_bound(std::begin(kParts), std::end(kParts), node.op_type,
                         [](const PartRow& one, std::string_view name) { return one.op_type < name; });
    if (row != std::end(kParts) && row->op_type == node.op_type) part = row->part;
  }
  // A Scatter that adds or multiplies computes.
  if (part == Part::kFollow && combines_updates(node)) part = Part::kCompute;
  if (copies_pixels(node) && !is_narrow(node.inputs[1])) part = Part::kFollow;
  if (part == Part::kCast || part == Part::kLook || part == Part::kNone) return part;
  return can_be_float32(node, is_narrow) ? part : Part::kNone;
}

class Widener {
 public:
  Widener(Graph& graph, const EvaluateNode& evaluate) : graph_(graph), evaluate_(evaluate) {}

  void run() {
    grow();
    for (ValueId id : graph_.outputs) is_output_[id] = true;
    PerNode<Node> nodes = std::move(graph_.nodes);
    graph_.nodes.clear();
    graph_.nodes.reserve(nodes.size());
    for (Node& node : nodes) visit(std::move(node));
  }

 private:
  // The two forms of a value that is float16 or bfloat16 in the model; kNoValue where a form does not exist (yet).
  struct Forms {
    ValueId narrow, wide;
    DataType type = DataType::kUndefined;
  };

  void grow() {
    const size_t before = forms_.size();
    forms_.resize(graph_.values.size());
    same_as_.resize(graph_.values.size(), kNoValue);
    is_output_.resize(graph_.values.size(), false);
    for (size_t i = before; i < forms_.size(); ++i) {
      const auto id = ValueId(static_cast<int32_t>(i));
      const Value& value = graph_.value(id);
      forms_[id] = {id, kNoValue, value.is_tensor ? value.type : DataType::kUndefined};
    }
  }

  bool is_narrow(ValueId id) const { return id != kNoValue && is_16_bit_float(forms_[id].type); }
  // Exists in float32, and is no constant.
  bool is_wide(ValueId id) const {
    return is_narrow(id) && forms_[id].wide != kNoValue && !graph_.value(forms_[id].wide).constant;
  }

  ValueId add_value(ValueId like, std::string name, DataType type) {
    Value value = graph_.value(like);
    value.name = std::move(name);
    value.type = type;
    value.constant = nullptr;
    const ValueId id = graph_.add_value(std::move(value));
    grow();
    // It is a form of `like`, and has none of its own.
    forms_[id].type = DataType::kUndefined;
    return id;
  }

  Node make_cast(ValueId from, ValueId to) const {
    constexpr int kCastVersion = 13;
    Node cast = make_node("Cast", kCastVersion, "", {from}, {to});
    cast.set_int("to", static_cast<int64_t>(graph_.value(to).type));
    return cast;
  }

  // The value in float32; a Cast makes it where no node did.
  ValueId wide(ValueId id) {
    if (forms_[id].wide != kNoValue) return forms_[id].wide;
    const ConstantRef constant = graph_.value(id).constant;
    if (const auto known = constants_.find(constant.get()); constant && known != constants_.end())
      return forms_[id].wide = known->second;
    const ValueId made = add_value(id, graph_.value(id).name + ":float32", DataType::kFloat);
    forms_[id].wide = made;
    Node cast = make_cast(id, made);
    if (constant && evaluate_) {
      if (const auto widened = evaluate_(graph_, cast); widened.ok() && !widened->empty() && (*widened)[0]) {
        graph_.value(made).constant = (*widened)[0];
        constants_[constant.get()] = made;
        return made;
      }
    }
    graph_.nodes.push_back(std::move(cast));
    return made;
  }

  // The value in the model's type.
  ValueId narrow(ValueId id) {
    if (forms_[id].narrow != kNoValue) return forms_[id].narrow;
    const ValueId from = forms_[id].wide;
    const std::string name = graph_.value(id).name;
    const ValueId made = add_value(from, name + ":narrow", forms_[id].type);
    graph_.nodes.push_back(make_cast(from, made));
    return forms_[id].narrow = made;
  }

  ValueId resolve(ValueId id) const {
    while (id != kNoValue && same_as_[id] != kNoValue) id = same_as_[id];
    return id;
  }

  void visit(Node node) {
    const std::vector<ValueId> stated = node.inputs;
    for (ValueId& id : node.inputs) id = resolve(id);
    switch (part_of_forms(node)) {
      case Part::kCast:
        return visit_cast(std::move(node));
      case Part::kLook:
        for (ValueId& id : node.inputs)
          if (is_narrow(id)) id = forms_[id].narrow != kNoValue ? forms_[id].narrow : forms_[id].wide;
        graph_.nodes.push_back(std::move(node));
        return;
      case Part::kFollow:
        if (is_wide(node.inputs[0])) return widen(std::move(node));
        break;
      case Part::kJoin:
        if (joins_wide(node)) return widen(std::move(node));
        break;
      case Part::kCompute:
        return widen(std::move(node));
      case Part::kNone:
        break;
    }
    node.inputs = stated;
    return keep(std::move(node));
  }

  // With the types that the model gave the node's values: some are float32 by now.
  Part part_of_forms(const Node& node) const {
    const auto narrow = [this](ValueId id) { return is_narrow(id); };
    if (std::none_of(node.inputs.begin(), node.inputs.end(), narrow) &&
        std::none_of(node.outputs.begin(), node.outputs.end(), narrow)) {
      return Part::kNone;
    }
    return part_of(graph_, node, narrow);
  }

  // A cache that grows by a few elements stays as it is: those elements are rounded, not the whole widened.
  bool joins_wide(const Node& node) const {
    const auto wide = [this](ValueId id) { return is_wide(id); };
    if (std::none_of(node.inputs.begin(), node.inputs.end(), wide)) return false;
    if (node.op_type != "Concat" || !is_output_[node.outputs[0]]) return true;
    return std::none_of(node.inputs.begin(), node.inputs.end(),
                        [&](ValueId id) { return is_narrow(id) && !is_wide(id) && !graph_.value(id).constant; });
  }

  // A value in the model's type: of a Cast to float32 that has gone, what that read in float32.
  ValueId of_model(ValueId id) {
    const ValueId from = resolve(id);
    return from == id && is_narrow(id) ? narrow(id) : from;
  }

  // The node with the model's types.
  void keep(Node node) {
    for (ValueId& id : node.inputs) id = of_model(id);
    for (Attribute& attribute : node.attributes.edit_bodies()) {
      if (!attribute.graph) continue;
      const auto& captures = attribute.graph->captures;
      const auto moves = [this](const auto& capture) {
        const ValueId id = resolve(capture.first);
        return id != capture.first || (is_narrow(id) && forms_[id].narrow != id);
      };
      if (std::none_of(captures.begin(), captures.end(), moves)) continue;
      if (attribute.graph.use_count() > 1) attribute.graph = std::make_shared<Graph>(*attribute.graph);
      for (auto& capture : attribute.graph->captures) capture.first = of_model(capture.first);
    }
    graph_.nodes.push_back(std::move(node));
  }

  // A Clip without a bound keeps within the numbers of its type, and float32 has more of them.
  void bound_clip(Node& node) {
    constexpr float kLargest[] = {65504.0f, 0x1.fep127f};  // of kWidenedTypes
    if (node.op_type != "Clip" || !node.domain.empty() || node.since_version < 11) return;
    node.inputs.resize(3, kNoValue);
    const float largest = kLargest[forms_[node.inputs[0]].type == kWidenedTypes[0] ? 0 : 1];
    for (size_t i : {1, 2}) {
      if (node.inputs[i] != kNoValue) continue;
      std::byte* data = nullptr;
      Result<ConstantRef> bound = make_constant(DataType::kFloat, Shape(), &data);
      if (!bound.ok()) continue;
      *reinterpret_cast<float*>(data) = i == 1 ? -largest : largest;
      const std::string name = graph_.value(node.outputs[0]).name + (i == 1 ? ":lowest" : ":largest");
      node.inputs[i] = graph_.add_constant(name, std::move(*bound));
      grow();
    }
  }

  // The node with float32 for float16 and bfloat16.
  void widen(Node node) {
    bound_clip(node);
    for (ValueId& id : node.inputs)
      if (is_narrow(id)) id = wide(id);
    std::vector<std::pair<ValueId, ValueId>> asked;
    for (ValueId& id : node.outputs) {
      if (!is_narrow(id)) continue;
      if (is_output_[id]) {
        const ValueId made = add_value(id, graph_.value(id).name + ":float32", DataType::kFloat);
        forms_[id].wide = made;
        asked.emplace_back(made, id);
        id = made;
        continue;
      }
      Value& value = graph_.value(id);
      value.name = widened_name(value.name, value.type);
      value.type = DataType::kFloat;
      forms_[id].narrow = kNoValue;
      forms_[id].wide = id;
    }
    set_dequantized_type(node, DataType::kFloat);
    graph_.nodes.push_back(std::move(node));
    for (const auto& [from, to] : asked) graph_.nodes.push_back(make_cast(from, to));
  }

  void visit_cast(Node node) {
    const ValueId x = node.inputs[0], y = node.outputs[0];
    const DataType to = forms_[y].type;
    if (node.op_type == "CastLike") node = cast_of_cast_like(node, to);
    if (is_narrow(x)) {
      const bool exact = to == DataType::kFloat;
      if (exact && is_wide(x) && !is_output_[y]) {
        same_as_[y] = forms_[x].wide;
        return;
      }
      if (exact && forms_[x].wide == kNoValue && !graph_.value(x).constant) forms_[x].wide = y;
      node.inputs[0] = is_wide(x) && reads_float32(to) ? forms_[x].wide : narrow(x);
    }
    graph_.nodes.push_back(std::move(node));
  }

  // Casts that see no difference between a float32 and the same rounded to 16 bits but the rounding itself.
  static bool reads_float32(DataType to) {
    switch (to) {
      case DataType::kFloat16:
      case DataType::kBfloat16:
      case DataType::kDouble:
      case DataType::kBool:
      case DataType::kInt8:
      case DataType::kUint8:
      case DataType::kInt16:
      case DataType::kUint16:
      case DataType::kInt32:
      case DataType::kUint32:
      case DataType::kInt64:
      case DataType::kUint64:
        return true;
      default:
        return false;
    }
  }

  Graph& graph_;
  const EvaluateNode& evaluate_;
  PerValue<Forms> forms_;
  PerValue<ValueId> same_as_;  // the value that a Cast which has gone would have made
  PerValue<bool> is_output_;
  std::map<const Constant*, ValueId> constants_;  // float32 constants by those that they were made of
};

}  // namespace

std::string widened_name(std::string_view name, DataType type) {
  return std::string(name) + std::string(kWidenedSuffixes[type == kWidenedTypes[0] ? 0 : 1]);
}

std::optional<ModelValue> model_value_of(const Value& value) {
  if (value.type != DataType::kFloat) return std::nullopt;
  for (size_t i = 0; i < std::size(kWidenedSuffixes); ++i) {
    std::string_view name = value.name;
    if (!name.ends_with(kWidenedSuffixes[i])) continue;
    name.remove_suffix(kWidenedSuffixes[i].size());
    return ModelValue{name, kWidenedTypes[i]};
  }
  return std::nullopt;
}

Status pass_widen(Graph& graph, const PassOptions& options) {
  const bool any = std::any_of(graph.values.begin(), graph.values.end(),
                               [](const Value& value) { return value.is_tensor && is_16_bit_float(value.type); });
  if (!any) return {};
  Widener(graph, options.evaluate).run();
  graph.remove_dead_nodes();
  return {};
}

}  // namespace tenon
