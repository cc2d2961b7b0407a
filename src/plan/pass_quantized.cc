// Products between quantised numbers become products of bytes: tenon.QuantizedMatMul and tenon.QuantizedConv, with the
// scales, bias, activation, residual and QuantizeLinear around them. Functions of one number between DequantizeLinear
// and QuantizeLinear become tables of 256 bytes.
#include <array>
#include <cstring>
#include <optional>
#include <utility>

#include "ops/attributes.h"
#include "ops/elementwise.h"
#include "ops/matmul.h"
#include "ops/unary.h"
#include "plan/pass_quantized.h"
#include "plan/passes.h"

namespace tenon {
namespace {

// Inputs of tenon.QuantizedMatMul and tenon.QuantizedConv (docs/reference/internal-operators.md).
enum Input : size_t { kA, kAScale, kAZero, kB, kBScale, kBZero, kYScale, kYZero, kBias, kResidual };
// Those of the one alone, and the table of each.
enum MatMulInput : size_t { kMiddleScale = 10, kMiddleZero, kMiddleBias, kMatMulTable };
constexpr size_t kConvTable = 10;

void set_input(Node& node, size_t input, ValueId id) {
  if (node.inputs.size() <= input) node.inputs.resize(input + 1, kNoValue);
  node.inputs[input] = id;
}

bool is_conv(const Node& node) { return node.op_type == "QuantizedConv"; }
size_t table_input(const Node& node) { return is_conv(node) ? kConvTable : kMatMulTable; }
bool makes_bytes(const Node& node) { return node.input(kYScale) != kNoValue; }

// The fused product that makes `id`, which nothing else reads.
const Node* product(const Rewriter& rewriter, ValueId id) {
  if (id == kNoValue || !rewriter.read_once(id)) return nullptr;
  for (std::string_view op : {"QuantizedMatMul", "QuantizedConv"})
    if (const Node* node = rewriter.made_by(id, op, "tenon")) return node;
  return nullptr;
}

// A fused product that makes the float32 numbers `id`: as it is, or with the bytes that it makes and their
// DequantizeLinear as its middle.
std::optional<Node> float_product(const Rewriter& rewriter, ValueId id) {
  if (const Node* node = product(rewriter, id); node != nullptr && !makes_bytes(*node)) return *node;
  const QuantizedEdge edge = dequantized(rewriter, id);
  if (edge.node == nullptr || !rewriter.read_once(id)) return std::nullopt;
  const Node* node = product(rewriter, edge.bytes);
  if (node == nullptr || is_conv(*node) || !makes_bytes(*node)) return std::nullopt;
  if (node->input(kMiddleScale) != kNoValue || node->input(kMatMulTable) != kNoValue || has_activation(*node) ||
      node->input(kResidual) != kNoValue || !same_constant(rewriter, node->inputs[kYScale], edge.scale) ||
      !same_constant(rewriter, node->input(kYZero), edge.zero))
    return std::nullopt;
  Node middle = *node;
  set_input(middle, kMiddleScale, edge.scale);
  set_input(middle, kMiddleZero, edge.zero);
  middle.inputs[kYScale] = middle.inputs[kYZero] = kNoValue;
  return middle;
}

// The scale of a constant operand: one, or one for each index of `axis`.
struct Weights {
  ValueId bytes = kNoValue, scale = kNoValue, zero = kNoValue;
};
std::optional<Weights> weights_of(const Rewriter& rewriter, ValueId id, int64_t axis_from_end, int64_t axis) {
  if (const QuantizedEdge edge = dequantized(rewriter, id); edge.node != nullptr)
    return Weights{edge.bytes, edge.scale, edge.zero};
  const Node* node = rewriter.made_by(id, "DequantizeLinear");
  if (node == nullptr || !rewriter.is_float(id) || !rewriter.is_float(node->inputs[1])) return std::nullopt;
  const Value& bytes = rewriter.value(node->inputs[0]);
  if (!is_byte(bytes.type) || !bytes.fully_known() || Attributes(*node).integer("block_size") != 0) return std::nullopt;
  const auto rank = static_cast<int64_t>(bytes.dims.size());
  const int64_t stated = Attributes(*node).integer("axis"), found = stated < 0 ? stated + rank : stated;
  const int64_t wanted = axis_from_end != 0 ? rank - axis_from_end : axis;
  if (found != wanted || wanted < 0 || wanted >= rank) return std::nullopt;
  const Shape lines{bytes.dims[static_cast<size_t>(wanted)].value};
  const ValueId zero = node->input(2);
  for (ValueId parameter : {node->inputs[1], zero}) {
    if (parameter == kNoValue) continue;
    const Value& value = rewriter.value(parameter);
    if (!value.fully_known() || value.shape() != lines) return std::nullopt;
  }
  if (zero != kNoValue && rewriter.value(zero).type != bytes.type) return std::nullopt;
  return Weights{node->inputs[0], node->inputs[1], zero};
}

// --- the products ---

size_t rank_of(const Rewriter& rewriter, ValueId id) {
  const Value& value = rewriter.value(id);
  return value.has_rank ? value.dims.size() : 0;
}

// Elements of the last dimension, where that is a number.
std::optional<int64_t> columns_of(const Rewriter& rewriter, ValueId id) {
  const Value& value = rewriter.value(id);
  if (!value.has_rank || value.dims.empty() || !value.dims.back().known()) return std::nullopt;
  return value.dims.back().value;
}

// A constant that adds one number to each column of `y`, as a vector.
ValueId row_of(Rewriter& rewriter, ValueId id, ValueId y) {
  const ConstantRef constant = rewriter.constant(id);
  const std::optional<int64_t> columns = columns_of(rewriter, y);
  if (!constant || constant->type != DataType::kFloat || !columns || constant->shape.rank() < 1 ||
      constant->shape.dims().size() > rank_of(rewriter, y))
    return kNoValue;
  const int last = constant->shape.rank() - 1;
  if (constant->shape[last] != *columns || constant->shape.element_count() != *columns) return kNoValue;
  if (last == 0) return id;
  auto row = std::make_shared<Constant>(*constant);
  row->shape = Shape{*columns};
  return rewriter.add_constant(rewriter.value(id).name + ":row", std::move(row));
}

// MatMul, or Gemm without factors, of dequantised operands.
std::optional<Node> from_matmul(Rewriter& rewriter, const Node& node) {
  const MatMulForm form = read_matmul_form(node);
  if (form.trans_a || form.alpha != 1 || (form.addend != kNoInput && form.beta != 1)) return std::nullopt;
  const QuantizedEdge a = dequantized(rewriter, node.inputs[form.a]);
  if (a.node == nullptr || rank_of(rewriter, a.bytes) < 2 || rank_of(rewriter, node.inputs[form.b]) < 2)
    return std::nullopt;
  // Exporters transpose the weights behind their DequantizeLinear.
  ValueId matrix = node.inputs[form.b];
  bool trans_b = form.trans_b;
  if (const Node* transpose = rewriter.made_by(matrix, "Transpose");
      transpose != nullptr && rank_of(rewriter, matrix) == 2) {
    const std::span<const int64_t> perm = Attributes(*transpose).integers("perm");
    if (perm.empty() || perm[0] == 1) {
      matrix = transpose->inputs[0];
      trans_b = !trans_b;
    }
  }
  const std::optional<Weights> b = weights_of(rewriter, matrix, trans_b ? 2 : 1, 0);
  if (!b) return std::nullopt;
  Node made = make_internal("QuantizedMatMul", node.name, {a.bytes, a.scale, a.zero, b->bytes, b->scale, b->zero},
                            node.outputs);
  if (trans_b) made.set_int("trans_b", 1);
  made.inputs.resize(kYZero + 1, kNoValue);
  if (form.addend == kNoInput) return made;
  const ValueId bias = row_of(rewriter, node.inputs[form.addend], node.outputs[0]);
  if (bias == kNoValue) return std::nullopt;
  set_input(made, kBias, bias);
  return made;
}

std::optional<Node> from_conv(const Rewriter& rewriter, const Node& node) {
  const QuantizedEdge x = dequantized(rewriter, node.inputs[0]);
  // Three spatial dimensions have no fast kernel of bytes.
  if (x.node == nullptr || rank_of(rewriter, x.bytes) < 3 || rank_of(rewriter, x.bytes) > 4) return std::nullopt;
  const std::optional<Weights> w = weights_of(rewriter, node.inputs[1], 0, 0);
  if (!w || rewriter.constant(w->bytes) == nullptr) return std::nullopt;
  // A depthwise convolution is faster on float32 numbers: as a product of bytes it has one row.
  const Value& weights = rewriter.value(w->bytes);
  if (Attributes(node).integer("group") > 1 && weights.fully_known() && weights.dims[1].value == 1) return std::nullopt;
  Node made = node;
  made.domain = "tenon";
  made.op_type = "QuantizedConv";
  made.since_version = 1;
  made.inputs = {x.bytes, x.scale, x.zero, w->bytes, w->scale, w->zero, kNoValue, kNoValue, node.input(2)};
  return made;
}

// The number 1 as a constant.
ValueId one(Rewriter& rewriter, const std::string& name) {
  std::byte* data = nullptr;
  Result<ConstantRef> constant = make_constant(DataType::kFloat, Shape{}, &data);
  if (!constant.ok()) return kNoValue;
  const float number = 1;
  std::memcpy(data, &number, sizeof number);
  return rewriter.add_constant(name + ":one", *std::move(constant));
}

// Mul(Cast(sums), scale), where the sums are those of MatMulInteger, or of ConvInteger with or without an int32 bias.
std::optional<Node> from_integers(Rewriter& rewriter, const Node& node) {
  if (node.inputs.size() != 2) return std::nullopt;
  for (size_t side : {0, 1}) {
    const Node* cast = rewriter.made_by(node.inputs[side], "Cast");
    const ValueId scale = node.inputs[1 - side];
    if (cast == nullptr || !rewriter.is_float(node.inputs[side]) || !rewriter.read_once(node.inputs[side]) ||
        !rewriter.is_float(scale) || !rewriter.value(scale).fully_known() || !rewriter.read_once(cast->inputs[0]))
      continue;
    const Shape shape = rewriter.value(scale).shape();
    const bool single = shape.element_count() == 1 && shape.dims().size() <= 1;
    if (const Node* sums = rewriter.made_by(cast->inputs[0], "MatMulInteger")) {
      const std::optional<int64_t> columns = columns_of(rewriter, cast->inputs[0]);
      const bool lines = columns && shape == Shape{*columns};
      const auto single_or_absent = [&](ValueId id) { return id == kNoValue || is_single(rewriter, id); };
      if ((!single && !lines) || !single_or_absent(sums->input(2)) || rank_of(rewriter, sums->inputs[0]) < 2 ||
          rank_of(rewriter, sums->inputs[1]) < 2)
        continue;
      const ValueId zero = sums->input(3);
      const bool columns_zero = zero != kNoValue && columns && rewriter.value(zero).fully_known() &&
                                rewriter.value(zero).shape() == Shape{*columns};
      if (!single_or_absent(zero) && !columns_zero) continue;
      Node made = make_internal(
          "QuantizedMatMul", node.name,
          {sums->inputs[0], one(rewriter, node.name), sums->input(2), sums->inputs[1], scale, zero, kNoValue, kNoValue},
          node.outputs);
      return made.inputs[kAScale] != kNoValue ? std::optional(std::move(made)) : std::nullopt;
    }
    if (!single) continue;
    const Node* sums = rewriter.made_by(cast->inputs[0], "ConvInteger");
    ValueId bias = kNoValue;
    if (sums == nullptr) {
      const Node* add = rewriter.made_by(cast->inputs[0], "Add");
      if (add == nullptr || add->inputs.size() != 2) continue;
      for (size_t i : {0, 1}) {
        const Node* reshape = rewriter.made_by(add->inputs[1 - i], "Reshape");
        const Node* conv = rewriter.made_by(add->inputs[i], "ConvInteger");
        if (reshape == nullptr || conv == nullptr || !rewriter.read_once(add->inputs[i])) continue;
        const Value &vector = rewriter.value(reshape->inputs[0]), &spread = rewriter.value(reshape->outputs[0]);
        const Value &y = rewriter.value(add->inputs[i]), &w = rewriter.value(conv->inputs[1]);
        if (vector.type != DataType::kInt32 || !vector.fully_known() || !spread.fully_known() || !w.fully_known() ||
            !y.has_rank || spread.dims.size() != y.dims.size() || w.dims.empty())
          continue;
        Shape wanted;
        for (size_t d = 0; d < y.dims.size(); ++d) wanted.push_back(d == 1 ? w.dims[0].value : 1);
        if (spread.shape() != wanted || vector.shape() != Shape{w.dims[0].value}) continue;
        sums = conv;
        bias = reshape->inputs[0];
      }
      if (sums == nullptr) continue;
    }
    Node made = *sums;
    made.domain = "tenon";
    made.op_type = "QuantizedConv";
    made.since_version = 1;
    made.outputs = node.outputs;
    made.inputs = {sums->inputs[0],
                   one(rewriter, node.name),
                   sums->input(2),
                   sums->inputs[1],
                   scale,
                   sums->input(3),
                   kNoValue,
                   kNoValue,
                   bias};
    if (made.inputs[kAScale] != kNoValue && is_single(rewriter, scale)) return made;
  }
  return std::nullopt;
}

// --- what follows them ---

std::optional<Node> with_added(Rewriter& rewriter, const Node& node) {
  for (size_t side : {0, 1}) {
    std::optional<Node> made = float_product(rewriter, node.inputs[side]);
    if (!made || made->input(kResidual) != kNoValue) continue;
    const ValueId added = node.inputs[1 - side];
    const bool conv = is_conv(*made), activated = has_activation(*made);
    const ValueId row = conv || activated ? kNoValue : row_of(rewriter, added, node.inputs[side]);
    if (row != kNoValue) {
      const bool middle = made->input(kMiddleScale) != kNoValue;
      const size_t input = middle ? static_cast<size_t>(kMiddleBias) : static_cast<size_t>(kBias);
      if (made->input(input) == kNoValue && Attributes(*made).number("factor") == 1) {
        set_input(*made, input, row);
        return made;
      }
    }
    if (!rewriter.is_float(added) || !rewriter.same_shape(added, node.inputs[side]) ||
        !rewriter.same_shape(added, node.outputs[0]))
      continue;
    set_input(*made, kResidual, added);
    if (activated) made->set_int("residual_after", 1);
    return made;
  }
  return std::nullopt;
}

// Behind the middle of a product: times a number.
std::optional<Node> with_factor(const Rewriter& rewriter, const Node& node) {
  for (size_t side : {0, 1}) {
    if (side == 1 && node.op_type == "Div") continue;
    const std::optional<float> number = rewriter.scalar_beside(node.inputs[1 - side], node.inputs[side]);
    if (!number) continue;
    std::optional<Node> made = float_product(rewriter, node.inputs[side]);
    if (!made || made->input(kResidual) != kNoValue || has_activation(*made)) continue;
    if (is_conv(*made) || made->input(kMiddleScale) == kNoValue) continue;
    const float factor = Attributes(*made).number("factor") * (node.op_type == "Div" ? 1 / *number : *number);
    // A factor of 0 would make the bias, which counts before it, infinite.
    if (factor == 0 || factor != factor) continue;
    made->set_float("factor", factor);
    return made;
  }
  return std::nullopt;
}

// Quantize(Softmax(Dequantize(x))) along the last axis.
std::optional<Node> from_softmax(const Rewriter& rewriter, const Node& node, const QuantizedEdge& to) {
  const Node* softmax = rewriter.made_by(node.inputs[0], "Softmax");
  if (softmax == nullptr || !rewriter.read_once(node.inputs[0])) return std::nullopt;
  const QuantizedEdge from = dequantized(rewriter, softmax->inputs[0]);
  const auto rank = static_cast<int64_t>(rank_of(rewriter, softmax->inputs[0]));
  const int64_t axis = Attributes(*softmax).integer("axis");
  if (from.node == nullptr || rank == 0 || (axis != -1 && axis != rank - 1)) return std::nullopt;
  return make_internal("QuantizedSoftmax", node.name, {from.bytes, from.scale, from.zero, to.scale, to.zero},
                       node.outputs);
}

std::optional<Node> fuse(Rewriter& rewriter, const Node& node) {
  if (node.domain == "tenon" && node.op_type == "Activation") {
    std::optional<Node> made = float_product(rewriter, node.inputs[0]);
    if (!made || has_activation(*made)) return std::nullopt;
    const Result<Epilogue> epilogue = read_epilogue(node);
    if (!epilogue.ok()) return std::nullopt;
    write_activation(*made, *epilogue);
    return made;
  }
  if (node.domain == "tenon" && node.op_type == "LookupBytes") {
    const Node* source = product(rewriter, node.inputs[0]);
    if (source == nullptr || !makes_bytes(*source) || source->input(table_input(*source)) != kNoValue ||
        rewriter.value(node.inputs[0]).type != rewriter.value(node.outputs[0]).type)
      return std::nullopt;
    Node made = *source;
    set_input(made, table_input(made), node.inputs[1]);
    return made;
  }
  if (!node.domain.empty()) return std::nullopt;
  if (node.op_type == "MatMul" || node.op_type == "Gemm") return from_matmul(rewriter, node);
  if (node.op_type == "Conv") return from_conv(rewriter, node);
  if (node.op_type == "QuantizeLinear") {
    const QuantizedEdge edge = quantized(rewriter, node);
    if (edge.node == nullptr) return std::nullopt;
    if (std::optional<Node> softmax = from_softmax(rewriter, node, edge)) return softmax;
    const Node* source = product(rewriter, node.inputs[0]);
    if (source == nullptr || makes_bytes(*source)) return std::nullopt;
    Node made = *source;
    set_input(made, kYScale, edge.scale);
    set_input(made, kYZero, edge.zero);
    return made;
  }
  if (node.inputs.size() != 2 || node.inputs[0] == kNoValue || node.inputs[1] == kNoValue) return std::nullopt;
  if (node.op_type == "Add") return with_added(rewriter, node);
  if (node.op_type == "Mul" || node.op_type == "Div") {
    if (std::optional<Node> made = node.op_type == "Mul" ? from_integers(rewriter, node) : std::nullopt) return made;
    return with_factor(rewriter, node);
  }
  return std::nullopt;
}

// --- tables ---

// An operation on each element of one value that is not constant: its input, else SIZE_MAX.
size_t function_input(const Rewriter& rewriter, const Node& node) {
  if (node.outputs.size() != 1 || !rewriter.is_float(node.outputs[0])) return SIZE_MAX;
  if (is_unary(node) && rewriter.is_float(node.input(0))) {
    for (size_t i = 1; i < node.inputs.size(); ++i)
      if (node.inputs[i] != kNoValue && rewriter.constant(node.inputs[i]) == nullptr) return SIZE_MAX;
    return 0;
  }
  if (!node.domain.empty() || node.inputs.size() != 2) return SIZE_MAX;
  for (std::string_view op : {"Add", "Sub", "Mul", "Div", "Max", "Min", "Pow"}) {
    if (node.op_type != op) continue;
    for (size_t side : {0, 1})
      if (rewriter.scalar_beside(node.inputs[1 - side], node.inputs[side])) return side;
  }
  return SIZE_MAX;
}

// A constant of the 256 bytes that a type has, in the order of their bits.
Result<ConstantRef> all_bytes(DataType type) {
  std::byte* data = nullptr;
  TENON_TRY_ASSIGN(ConstantRef constant, make_constant(type, Shape{256}, &data));
  for (int i = 0; i < 256; ++i) data[i] = static_cast<std::byte>(i);
  return constant;
}

// The result of `node` where input `input` is `x`; null where it cannot be computed.
ConstantRef applied(Rewriter& rewriter, const PassOptions& options, const Node& node, size_t input,
                    const ConstantRef& x) {
  Node asked = node;
  asked.inputs[input] = rewriter.add_constant(node.name + ":bytes", x);
  Value value = rewriter.value(node.outputs[0]);
  value.constant = nullptr;
  value.set_shape(Shape{256});
  asked.outputs = {rewriter.add_value(std::move(value))};
  Result<std::vector<ConstantRef>> results = options.evaluate(rewriter.graph(), asked);
  return results.ok() && results->size() == 1 ? (*results)[0] : nullptr;
}

// Quantize(f(g(... Dequantize(x)))) becomes a table.
void make_table(Rewriter& rewriter, const PassOptions& options, NodeId i) {
  const Node& node = rewriter.node(i);
  if (quantized(rewriter, node).node == nullptr) return;
  constexpr size_t kLongest = 16;
  std::vector<std::pair<Node, size_t>> chain = {{node, 0}};  // last first
  QuantizedEdge from;
  for (ValueId x = node.inputs[0];; x = chain.back().first.inputs[chain.back().second]) {
    from = dequantized(rewriter, x);
    if (from.node != nullptr) break;
    const Node* maker = rewriter.read_once(x) ? rewriter.producer(x) : nullptr;
    const size_t input = maker != nullptr ? function_input(rewriter, *maker) : SIZE_MAX;
    if (input == SIZE_MAX || chain.size() == kLongest) return;
    chain.emplace_back(*maker, input);
  }
  for (const Node* edge : {from.node, &node})
    for (size_t input : {1, 2})
      if (edge->input(input) != kNoValue && rewriter.constant(edge->inputs[input]) == nullptr) return;
  if (rewriter.constant(from.bytes) != nullptr || !rewriter.may_make(256 * (4 * chain.size() + 2))) return;
  Result<ConstantRef> bytes = all_bytes(rewriter.value(from.bytes).type);
  ConstantRef values = bytes.ok() ? applied(rewriter, options, *from.node, 0, *bytes) : nullptr;
  while (values && !chain.empty()) {
    values = applied(rewriter, options, chain.back().first, chain.back().second, values);
    chain.pop_back();
  }
  if (!values || values->size_bytes != 256) return;
  const ValueId table = rewriter.add_constant(node.name + ":table", std::move(values));
  rewriter.replace(i, make_internal("LookupBytes", node.name, {from.bytes, table}, node.outputs));
}

}  // namespace

Status pass_quantized_tables(Graph& graph, const PassOptions& options) {
  if (!options.evaluate) return {};
  Rewriter rewriter(graph);
  for (NodeId i : rewriter.ids())
    if (!rewriter.erased(i)) make_table(rewriter, options, i);
  rewriter.finish();
  return {};
}

Status pass_quantized_products(Graph& graph, const PassOptions&) {
  Rewriter rewriter(graph);
  for (NodeId i : rewriter.ids()) {
    if (rewriter.erased(i)) continue;
    const Node& node = rewriter.node(i);
    if (std::optional<Node> made = fuse(rewriter, node)) {
      made->outputs = node.outputs;
      rewriter.replace(i, std::move(*made));
    }
  }
  rewriter.finish();
  return {};
}

}  // namespace tenon
