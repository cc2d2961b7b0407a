// Puts operators that only move elements on the side of a DequantizeLinear or QuantizeLinear where the elements are
// bytes: a quarter of the memory, and products meet the scales that belong to them.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <optional>
#include <utility>

#include "ops/attributes.h"
#include "ops/pad.h"
#include "ops/resize.h"
#include "plan/pass_quantized.h"
#include "plan/passes.h"

namespace tenon {

bool is_byte(DataType type) { return type == DataType::kUint8 || type == DataType::kInt8; }

bool is_single(const Rewriter& rewriter, ValueId id) {
  const Value& value = rewriter.value(id);
  return value.fully_known() && value.shape().element_count() == 1;
}

bool same_constant(const Rewriter& rewriter, ValueId a, ValueId b) {
  if (a == b) return true;
  if (a == kNoValue || b == kNoValue) return false;
  const ConstantRef &x = rewriter.constant(a), &y = rewriter.constant(b);
  return x && y && x->type == y->type && x->size_bytes == y->size_bytes &&
         std::memcmp(x->data, y->data, x->size_bytes) == 0;
}

bool is_move(const Node& node) {
  static constexpr std::string_view kMoves[] = {"Reshape", "Transpose", "Squeeze", "Unsqueeze", "Flatten", "Identity"};
  return node.domain.empty() && std::find(std::begin(kMoves), std::end(kMoves), node.op_type) != std::end(kMoves);
}

namespace {

// A Resize whose elements are elements of its input.
bool is_nearest(const Node& node) {
  if (node.op_type != "Resize" && node.op_type != "Upsample") return false;
  const Result<ResizeSettings> settings = read_resize_settings(node);
  return settings.ok() && settings->mode == ResizeSettings::Mode::kNearest &&
         settings->coordinates != ResizeSettings::Coordinates::kTfCrop;
}

// A MaxPool of bytes: the largest number is the largest byte where the scale is above 0.
bool is_maximum(const Node& node) {
  constexpr int kHasBytes = 12;
  return node.domain.empty() && node.op_type == "MaxPool" && node.since_version >= kHasBytes;
}

// An operator of ai.onnx that takes some elements of its first input, or all of them in another order.
bool is_selection(const Node& node) {
  static constexpr std::string_view kSelections[] = {"DepthToSpace", "Gather", "GatherElements",
                                                     "GatherND",     "Slice",  "SpaceToDepth"};
  return node.domain.empty() && (is_nearest(node) || std::find(std::begin(kSelections), std::end(kSelections),
                                                               node.op_type) != std::end(kSelections));
}

bool is_integer(DataType type) { return is_byte(type) || type == DataType::kUint16 || type == DataType::kInt16; }

// The edge with integers on one side and `floats` on the other; its node is null where it is no such one.
QuantizedEdge edge_of(const Rewriter& rewriter, const Node& node, ValueId bytes, ValueId floats,
                      bool (&fits)(DataType) = is_byte) {
  const ValueId scale = node.input(1), zero = node.input(2);
  if (Attributes(node).integer("block_size") != 0) return {};
  if (bytes == kNoValue || scale == kNoValue || !rewriter.is_float(floats) || !rewriter.is_float(scale)) return {};
  if (!fits(rewriter.value(bytes).type) || !is_single(rewriter, scale)) return {};
  if (zero != kNoValue && (!is_single(rewriter, zero) || rewriter.value(zero).type != rewriter.value(bytes).type))
    return {};
  return {.node = &node, .bytes = bytes, .scale = scale, .zero = zero};
}

// A new value like `id`, of the type of `bytes`.
ValueId add_bytes(Rewriter& rewriter, ValueId id, ValueId bytes) {
  Value value = rewriter.value(id);
  value.name += ":bytes";
  value.type = rewriter.value(bytes).type;
  value.constant = nullptr;
  return rewriter.add_value(std::move(value));
}

// `node` without its place in the graph, from bytes to a new value of bytes.
std::pair<Node, ValueId> on_bytes(Rewriter& rewriter, const Node& node, ValueId bytes) {
  Node moved = node;
  moved.inputs[0] = bytes;
  moved.outputs = {add_bytes(rewriter, node.outputs[0], bytes)};
  return {moved, moved.outputs[0]};
}

// A Pad whose new elements are zeros or copies of others.
bool pads_with_zeros(const Rewriter& rewriter, const Node& node) {
  if (node.op_type != "Pad" || !node.domain.empty() || has_pad_attributes(node)) return false;
  const Result<PadMode> mode = read_pad_mode(node);
  if (!mode.ok()) return false;
  return *mode != PadMode::kConstant || node.input(2) == kNoValue || rewriter.scalar(node.inputs[2]) == 0.0f;
}

// The zero point `zero` as the value of a Pad; kNoValue, the default, where there is none or no memory.
ValueId pad_value(Rewriter& rewriter, ValueId zero) {
  if (zero == kNoValue) return kNoValue;
  const ConstantRef from = rewriter.constant(zero);
  const std::string name = rewriter.value(zero).name + ":value";
  std::byte* data = nullptr;
  Result<ConstantRef> value = make_constant(from->type, Shape{}, &data);
  if (!value.ok()) return kNoValue;
  std::memcpy(data, from->data, from->size_bytes);
  return rewriter.add_constant(name, *std::move(value));
}

// Move(Dequantize(x)) becomes Dequantize(Move(x)), also where only some elements of a constant are taken, as those of
// an embedding, or zeros are added; Shape(Dequantize(x)) becomes Shape(x).
void sink_dequantize(Rewriter& rewriter, NodeId i) {
  const Node& node = rewriter.node(i);
  const bool shape = node.op_type == "Shape" && node.domain.empty();
  const bool maximum = is_maximum(node), selection = maximum || is_selection(node),
             pad = pads_with_zeros(rewriter, node);
  if ((!shape && !selection && !pad && !is_move(node)) || node.outputs.size() != 1) return;
  const Node* maker = rewriter.made_by(node.input(0), "DequantizeLinear");
  if (maker == nullptr) return;
  const QuantizedEdge edge = edge_of(rewriter, *maker, maker->inputs[0], node.input(0), is_integer);
  // Constants that stay whole are folded, whichever side they are on.
  if (edge.node == nullptr || (!selection && rewriter.constant(edge.bytes) != nullptr)) return;
  if (pad && edge.zero != kNoValue && rewriter.constant(edge.zero) == nullptr) return;
  if (maximum && !(is_byte(rewriter.value(edge.bytes).type) && rewriter.scalar(edge.scale).value_or(0) > 0)) return;
  if (shape) {
    Node same = node;
    same.inputs[0] = edge.bytes;
    rewriter.replace(i, std::move(same));
    return;
  }
  Node dequantize = *edge.node;
  if (dequantize.has("axis")) dequantize.set_int("axis", 0);
  dequantize.outputs = node.outputs;
  const ValueId value = pad ? pad_value(rewriter, edge.zero) : kNoValue;
  if (pad && edge.zero != kNoValue && value == kNoValue) return;  // its bytes would stand for another number
  auto [moved, bytes] = on_bytes(rewriter, node, edge.bytes);
  if (pad && moved.inputs.size() > 2) moved.inputs[2] = kNoValue;
  if (value != kNoValue) {
    moved.inputs.resize(std::max<size_t>(moved.inputs.size(), 3), kNoValue);
    moved.inputs[2] = value;
  }
  dequantize.inputs[0] = bytes;
  rewriter.insert_before(i, std::move(moved));
  rewriter.replace(i, std::move(dequantize));
}

// Split(Dequantize(x)) becomes a Dequantize of each part of Split(x).
void sink_below_split(Rewriter& rewriter, NodeId i) {
  const Node& node = rewriter.node(i);
  if (node.op_type != "Split" || !node.domain.empty()) return;
  const Node* maker = rewriter.made_by(node.input(0), "DequantizeLinear");
  if (maker == nullptr) return;
  const QuantizedEdge edge = edge_of(rewriter, *maker, maker->inputs[0], node.input(0), is_integer);
  if (edge.node == nullptr || rewriter.constant(edge.bytes) != nullptr) return;
  Node split = node;
  split.inputs[0] = edge.bytes;
  std::vector<Node> parts;
  for (ValueId& output : split.outputs) {
    if (output == kNoValue) continue;
    Node part = *edge.node;
    part.outputs = {output};
    output = add_bytes(rewriter, output, edge.bytes);
    part.inputs[0] = output;
    if (part.has("axis")) part.set_int("axis", 0);
    parts.push_back(std::move(part));
  }
  if (parts.empty()) return;
  rewriter.insert_before(i, std::move(split));
  for (; parts.size() > 1; parts.pop_back()) rewriter.insert_before(i, std::move(parts.back()));
  rewriter.replace(i, std::move(parts.front()));
}

// Gather(Dequantize(table)) of 4 bits with a scale for each block becomes GatherBlockQuantized, which has the same
// inputs.
void gather_blocks(Rewriter& rewriter, NodeId i) {
  const Node& node = rewriter.node(i);
  if (node.op_type != "Gather" || !node.domain.empty()) return;
  const Node* dequantize = rewriter.made_by(node.inputs[0], "DequantizeLinear");
  if (dequantize == nullptr || !rewriter.is_float(node.inputs[0]) || !rewriter.is_float(dequantize->inputs[1])) return;
  const ConstantRef& table = rewriter.constant(dequantize->inputs[0]);
  if (!table || (table->type != DataType::kInt4 && table->type != DataType::kUint4)) return;
  const int64_t block = Attributes(*dequantize).integer("block_size"), rank = table->shape.rank();
  const auto axis_of = [&](const Node& of) { return (Attributes(of).integer("axis") + rank) % rank; };
  if (block < 1 || axis_of(node) == axis_of(*dequantize)) return;
  Node made = make_node("GatherBlockQuantized", 1, node.name,
                        {dequantize->inputs[0], node.inputs[1], dequantize->inputs[1]}, node.outputs);
  made.domain = "com.microsoft";
  if (dequantize->input(2) != kNoValue) made.inputs.push_back(dequantize->inputs[2]);
  made.set_int("block_size", block);
  made.set_int("gather_axis", axis_of(node));
  made.set_int("quantize_axis", axis_of(*dequantize));
  rewriter.replace(i, std::move(made));
}

// Where(IsNaN(x), c, x) of a dequantised x is x.
void drop_guard(Rewriter& rewriter, NodeId i) {
  const Node& node = rewriter.node(i);
  if (node.op_type != "Where" || !node.domain.empty()) return;
  const Node* test = rewriter.made_by(node.inputs[0], "IsNaN");
  const QuantizedEdge edge = dequantized(rewriter, node.inputs[2]);
  if (test == nullptr || test->inputs[0] != node.inputs[2] || edge.node == nullptr ||
      !rewriter.scalar_beside(node.inputs[1], node.inputs[2]))
    return;
  const std::optional<float> scale = rewriter.scalar(edge.scale);
  if (!scale || !std::isfinite(*scale)) return;
  Node copy = *edge.node;
  copy.outputs = node.outputs;
  rewriter.replace(i, std::move(copy));
}

// A product or quotient with one number.
bool scales(const Rewriter& rewriter, const Node& node) {
  if (!node.domain.empty() || node.inputs.size() != 2) return false;
  if (node.op_type == "Div") return rewriter.scalar_beside(node.inputs[1], node.inputs[0]).has_value();
  return node.op_type == "Mul" && (rewriter.scalar_beside(node.inputs[0], node.inputs[1]).has_value() ||
                                   rewriter.scalar_beside(node.inputs[1], node.inputs[0]).has_value());
}

size_t data_operand(const Rewriter& rewriter, const Node& node) {
  return is_move(node) || rewriter.constant(node.inputs[1]) != nullptr ? 0 : 1;
}

// Quantize(Scale(Move(x))) becomes Move(Quantize(Scale(x))), with any number of both.
void raise_quantize(Rewriter& rewriter, NodeId i) {
  const Node& node = rewriter.node(i);
  const QuantizedEdge edge = quantized(rewriter, node);
  if (edge.node == nullptr) return;
  std::vector<Node> moves, factors;  // last first
  ValueId x = node.inputs[0];
  while (rewriter.read_once(x)) {
    const Node* maker = rewriter.producer(x);
    if (maker == nullptr || maker->outputs.size() != 1) break;
    if (is_move(*maker)) {
      moves.push_back(*maker);
    } else if (scales(rewriter, *maker)) {
      factors.push_back(*maker);
    } else {
      break;
    }
    x = maker->inputs[data_operand(rewriter, *maker)];
  }
  if (moves.empty() || x == kNoValue || !rewriter.value(x).has_rank) return;
  // A number with more dimensions would change the shape.
  for (const Node& factor : factors) {
    const ConstantRef& number = rewriter.constant(factor.inputs[1 - data_operand(rewriter, factor)]);
    if (number->shape.dims().size() > rewriter.value(x).dims.size()) return;
  }
  while (!factors.empty()) {
    Node factor = std::move(factors.back());
    factors.pop_back();
    Value value = rewriter.value(x);
    value.name = rewriter.value(factor.outputs[0]).name + ":moved";
    value.constant = nullptr;
    factor.inputs[data_operand(rewriter, factor)] = x;
    factor.outputs = {x = rewriter.add_value(std::move(value))};
    rewriter.insert_before(i, std::move(factor));
  }
  Node quantize = node;
  if (quantize.has("axis")) quantize.set_int("axis", 0);
  Value bytes = rewriter.value(x);
  bytes.name += ":bytes";
  bytes.type = rewriter.value(node.outputs[0]).type;
  bytes.constant = nullptr;
  quantize.inputs[0] = x;
  quantize.outputs = {x = rewriter.add_value(std::move(bytes))};
  rewriter.insert_before(i, std::move(quantize));
  while (moves.size() > 1) {
    auto [moved, value] = on_bytes(rewriter, moves.back(), x);
    moves.pop_back();
    rewriter.insert_before(i, std::move(moved));
    x = value;
  }
  Node last = moves.front();
  last.inputs[0] = x;
  last.outputs = node.outputs;
  rewriter.replace(i, std::move(last));
}

// Quantize(Concat(Dequantize(a), Dequantize(b), ...)) becomes Concat(Quantize(Dequantize(a)), ...), whose parts are
// tables of bytes, or a and b themselves where the steps are equal.
void raise_over_concat(Rewriter& rewriter, NodeId i) {
  const Node node = rewriter.node(i);
  const QuantizedEdge edge = quantized(rewriter, node);
  const Node* maker = rewriter.made_by(node.input(0), "Concat");
  if (edge.node == nullptr || maker == nullptr || !rewriter.read_once(node.inputs[0])) return;
  const auto is_constant = [&](const QuantizedEdge& one) {
    return rewriter.constant(one.scale) && (one.zero == kNoValue || rewriter.constant(one.zero));
  };
  const auto fits = [&](ValueId part) {
    const QuantizedEdge from = dequantized(rewriter, part);
    return from.node != nullptr && is_constant(from);
  };
  if (!is_constant(edge) || !std::ranges::all_of(maker->inputs, fits)) return;
  Node concat = *maker;
  for (ValueId& part : concat.inputs) {
    Node quantize = node;
    quantize.inputs[0] = part;
    Value bytes = rewriter.value(part);
    bytes.name = rewriter.value(node.outputs[0]).name + ":part";
    bytes.type = rewriter.value(node.outputs[0]).type;
    bytes.constant = nullptr;
    quantize.outputs = {part = rewriter.add_value(std::move(bytes))};
    rewriter.insert_before(i, std::move(quantize));
  }
  concat.outputs = node.outputs;
  rewriter.replace(i, std::move(concat));
}

}  // namespace

QuantizedEdge dequantized(const Rewriter& rewriter, ValueId id) {
  const Node* node = rewriter.made_by(id, "DequantizeLinear");
  return node ? edge_of(rewriter, *node, node->inputs[0], id) : QuantizedEdge();
}

QuantizedEdge quantized(const Rewriter& rewriter, const Node& node) {
  if (node.op_type != "QuantizeLinear" || !node.domain.empty()) return {};
  return edge_of(rewriter, node, node.outputs[0], node.input(0));
}

Status pass_quantized_moves(Graph& graph, const PassOptions&) {
  {
    Rewriter rewriter(graph);
    for (NodeId i : rewriter.ids()) {
      if (rewriter.erased(i)) continue;
      sink_dequantize(rewriter, i);
      sink_below_split(rewriter, i);
      gather_blocks(rewriter, i);
      drop_guard(rewriter, i);
    }
    rewriter.finish();
  }
  Rewriter rewriter(graph);
  for (NodeId i : rewriter.ids()) {
    if (!rewriter.erased(i)) raise_over_concat(rewriter, i);
    if (!rewriter.erased(i)) raise_quantize(rewriter, i);
  }
  rewriter.finish();
  return {};
}

}  // namespace tenon
