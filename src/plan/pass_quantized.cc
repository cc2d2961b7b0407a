// Products between quantised numbers become products of bytes: tenon.QuantizedMatMul and tenon.QuantizedConv, with the
// scales, bias, activation, residual and QuantizeLinear around them. Functions of one byte, between DequantizeLinear
// and QuantizeLinear or by operators such as QLinearMul, become tables of 256 bytes, or of 256 for each channel.
#include <algorithm>
#include <array>
#include <cstring>
#include <map>
#include <optional>
#include <utility>

#include "ops/attributes.h"
#include "ops/elementwise.h"
#include "ops/matmul.h"
#include "ops/norm.h"
#include "ops/quantized_bytes.h"
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

// A fused product that makes the bytes `id`. QLinearConv has the same inputs and the same arithmetic.
std::optional<Node> byte_product(const Rewriter& rewriter, ValueId id) {
  if (const Node* node = product(rewriter, id); node != nullptr && makes_bytes(*node)) return *node;
  const Node* conv = rewriter.read_once(id) ? rewriter.made_by(id, "QLinearConv") : nullptr;
  if (conv == nullptr) return std::nullopt;
  Node made = *conv;
  made.domain = "tenon";
  made.op_type = "QuantizedConv";
  made.since_version = 1;
  return made;
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

// The matrix B, and whether it is transposed: exporters transpose the weights behind their DequantizeLinear.
std::pair<ValueId, bool> matrix_of(const Rewriter& rewriter, ValueId b, bool trans_b) {
  const Node* transpose = rewriter.made_by(b, "Transpose");
  if (transpose == nullptr || rank_of(rewriter, b) != 2) return {b, trans_b};
  const std::span<const int64_t> perm = Attributes(*transpose).integers("perm");
  return perm.empty() || perm[0] == 1 ? std::pair(transpose->inputs[0], !trans_b) : std::pair(b, trans_b);
}

// The columns of a constant of 4 bits an element in the shape that MatMulNBits reads: each begins with a byte of its
// own, and 8 stands for 0 where `from` is signed.
ConstantRef columns_of_codes(const Constant& from, bool transposed, const Shape& shape) {
  std::byte* to = nullptr;
  Result<ConstantRef> made = make_constant(DataType::kUint8, shape, &to);
  if (!made.ok()) return nullptr;
  const int64_t rows = from.shape[transposed ? 1 : 0], columns = from.shape[transposed ? 0 : 1];
  const int64_t column_bytes = shape.element_count() / columns;
  const std::byte* const codes = from.data;
  const unsigned flip = from.type == DataType::kInt4 ? 8 : 0;
  // Few columns at a time, so that the bytes they are written to stay in the cache.
  constexpr int64_t kTogether = 64;
  for (int64_t task = 0; task < (columns + kTogether - 1) / kTogether * rows; ++task) {
    const int64_t row = task % rows, first = task / rows * kTogether;
    for (int64_t column = first; column < std::min(columns, first + kTogether); ++column) {
      const int64_t at = transposed ? column * rows + row : row * columns + column;
      const unsigned code = (static_cast<unsigned>(codes[at / 2]) >> (at % 2 * 4) & 15) ^ flip;
      to[column * column_bytes + row / 2] |= static_cast<std::byte>(code << (row % 2 * 4));
    }
  }
  return *std::move(made);
}

// A product with constant weights of 4 bits that have a scale for each block of a column.
std::optional<Node> from_blocks(Rewriter& rewriter, const Node& node) {
  const MatMulForm form = read_matmul_form(node);
  if (!form.is_bare() || form.alpha != 1 || !rewriter.is_float(node.inputs[form.a])) return std::nullopt;
  const auto [matrix, trans_b] = matrix_of(rewriter, node.inputs[form.b], form.trans_b);
  const Node* dequantize = rewriter.made_by(matrix, "DequantizeLinear");
  if (dequantize == nullptr) return std::nullopt;
  const ConstantRef codes = rewriter.constant(dequantize->inputs[0]), scale = rewriter.constant(dequantize->inputs[1]);
  const ConstantRef zero = dequantize->input(2) != kNoValue ? rewriter.constant(dequantize->inputs[2]) : nullptr;
  const bool is_signed = codes && codes->type == DataType::kInt4;
  if (!codes || (!is_signed && codes->type != DataType::kUint4) || codes->shape.rank() != 2 || !scale ||
      scale->type != DataType::kFloat || (dequantize->input(2) != kNoValue && !zero))
    return std::nullopt;
  const int64_t block = Attributes(*dequantize).integer("block_size"), axis = Attributes(*dequantize).integer("axis");
  const int depth = trans_b ? 1 : 0;
  const int64_t k = codes->shape[depth], n = codes->shape[1 - depth];
  if ((axis < 0 ? axis + 2 : axis) != depth || block < 16 || block > 256 || (block & (block - 1)) != 0 || k < 1 ||
      n < 1)
    return std::nullopt;
  const int64_t blocks = (k + block - 1) / block;
  if (scale->shape != (trans_b ? Shape{n, blocks} : Shape{blocks, n}) ||
      (zero && (zero->shape != scale->shape || zero->type != codes->type)) ||
      !rewriter.may_make(static_cast<size_t>(n * blocks) * static_cast<size_t>(block / 2 + 5)))
    return std::nullopt;
  std::byte* scales = nullptr;
  const Shape zeros_shape{n, (blocks + 1) / 2};
  std::array<ConstantRef, 3> made = {columns_of_codes(*codes, trans_b, Shape{n, blocks, block / 2})};
  if (Result<ConstantRef> constant = make_constant(DataType::kFloat, Shape{n, blocks}, &scales); constant.ok())
    made[1] = *std::move(constant);
  if (zero) {
    made[2] = columns_of_codes(*zero, trans_b, zeros_shape);
  } else if (!is_signed) {
    std::byte* unused = nullptr;
    if (Result<ConstantRef> constant = make_constant(DataType::kUint8, zeros_shape, &unused); constant.ok())
      made[2] = *std::move(constant);
  }
  if (!made[0] || !made[1] || (!made[2] && (zero || !is_signed))) return std::nullopt;
  const std::span<const float> from = scale->as<float>();
  for (int64_t i = 0; i < n * blocks; ++i) {
    const int64_t at = trans_b ? i : i % blocks * n + i / blocks;
    std::memcpy(scales + i * 4, &from[static_cast<size_t>(at)], 4);
  }
  Node product = make_node("MatMulNBits", 1, node.name, {node.inputs[form.a]}, node.outputs);
  product.domain = "com.microsoft";
  for (ConstantRef& constant : made)
    if (constant) product.inputs.push_back(rewriter.add_constant(node.name + ":codes", std::move(constant)));
  for (const auto& [attribute, value] :
       {std::pair("K", k), {"N", n}, {"bits", 4}, {"accuracy_level", 4}, {"block_size", block}})
    product.set_int(attribute, value);
  return product;
}

// MatMul, or Gemm without factors, of dequantised operands.
std::optional<Node> from_matmul(Rewriter& rewriter, const Node& node) {
  const MatMulForm form = read_matmul_form(node);
  if (form.trans_a || form.alpha != 1 || (form.addend != kNoInput && form.beta != 1)) return std::nullopt;
  const QuantizedEdge a = dequantized(rewriter, node.inputs[form.a]);
  if (a.node == nullptr || rank_of(rewriter, a.bytes) < 2 || rank_of(rewriter, node.inputs[form.b]) < 2)
    return std::nullopt;
  const auto [matrix, trans_b] = matrix_of(rewriter, node.inputs[form.b], form.trans_b);
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

// The values whose only reader rounds them to bytes, behind a Relu or Clip or as they are.
PerValue<bool> rounded_values(const Rewriter& rewriter) {
  PerValue<bool> rounded(rewriter.graph().values.size(), false);
  for (size_t i = rewriter.graph().nodes.size(); i-- > 0;) {
    const Node& node = rewriter.node(NodeId(static_cast<int32_t>(i)));
    if (node.inputs.empty() || !rewriter.read_once(node.inputs[0])) continue;
    bool rounds = quantized(rewriter, node).node != nullptr;
    if (node.domain == "tenon" && node.op_type == "Activation" && rounded[node.outputs[0]]) {
      const Result<Epilogue> epilogue = read_epilogue(node);
      rounds =
          epilogue.ok() && (epilogue->activation == Activation::kRelu || epilogue->activation == Activation::kClip);
    }
    if (rounds) rounded[node.inputs[0]] = true;
  }
  return rounded;
}

std::optional<Node> from_conv(const Rewriter& rewriter, const Node& node, const PerValue<bool>& rounded) {
  const QuantizedEdge x = dequantized(rewriter, node.inputs[0]);
  // Three spatial dimensions have no fast kernel of bytes.
  if (x.node == nullptr || rank_of(rewriter, x.bytes) < 3 || rank_of(rewriter, x.bytes) > 4) return std::nullopt;
  const std::optional<Weights> w = weights_of(rewriter, node.inputs[1], 0, 0);
  if (!w || rewriter.constant(w->bytes) == nullptr) return std::nullopt;
  // A depthwise convolution that makes float32 numbers is faster on such numbers: as a product of bytes it has one row.
  const Value& weights = rewriter.value(w->bytes);
  if (Attributes(node).integer("group") > 1 && weights.fully_known() && weights.dims[1].value == 1 &&
      !rounded[node.outputs[0]])
    return std::nullopt;
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

// A constant scale with which numbers of bytes neither overflow nor become subnormal.
bool is_usual(const Rewriter& rewriter, ValueId scale) {
  const std::optional<float> value = rewriter.scalar(scale);
  return value && *value > 1e-18f && *value < 1e18f;
}

// Quantize(Dequantize(a) + Dequantize(b)), or their product, where all bytes have one type.
std::optional<Node> from_binary(const Rewriter& rewriter, const Node& node, const QuantizedEdge& to) {
  for (std::string_view op : {"Add", "Mul"}) {
    const Node* binary = rewriter.made_by(node.inputs[0], op);
    if (binary == nullptr || !rewriter.read_once(node.inputs[0])) continue;
    Node made = make_node(op == "Add" ? "QLinearAdd" : "QLinearMul", 1, node.name, {}, node.outputs);
    made.domain = "com.microsoft";
    for (ValueId operand : binary->inputs) {
      const QuantizedEdge from = dequantized(rewriter, operand);
      if (from.node == nullptr || rewriter.value(from.bytes).type != rewriter.value(to.bytes).type) return std::nullopt;
      made.inputs.insert(made.inputs.end(), {from.bytes, from.scale, from.zero});
    }
    if (!is_usual(rewriter, to.scale)) return std::nullopt;
    made.inputs.insert(made.inputs.end(), {to.scale, to.zero});
    write_exact(made);
    return made;
  }
  return std::nullopt;
}

// Quantize(GlobalAveragePool(Dequantize(x))): a sum of bytes is exact, where that of their numbers is rounded.
std::optional<Node> from_mean(const Rewriter& rewriter, const Node& node, const QuantizedEdge& to) {
  const Node* pool = rewriter.made_by(node.inputs[0], "GlobalAveragePool");
  if (pool == nullptr || !rewriter.read_once(node.inputs[0])) return std::nullopt;
  const QuantizedEdge from = dequantized(rewriter, pool->inputs[0]);
  if (from.node == nullptr || rewriter.value(from.bytes).type != rewriter.value(to.bytes).type) return std::nullopt;
  Node made = make_node("QLinearGlobalAveragePool", 1, node.name,
                        {from.bytes, from.scale, from.zero, to.scale, to.zero}, node.outputs);
  made.domain = "com.microsoft";
  return made;
}

std::optional<Node> fuse(Rewriter& rewriter, const Node& node, const PerValue<bool>& rounded) {
  if (node.domain == "tenon" && node.op_type == "Activation") {
    std::optional<Node> made = float_product(rewriter, node.inputs[0]);
    if (!made || has_activation(*made)) return std::nullopt;
    const Result<Epilogue> epilogue = read_epilogue(node);
    if (!epilogue.ok()) return std::nullopt;
    write_activation(*made, *epilogue);
    return made;
  }
  if (node.domain == "tenon" && node.op_type == "LookupBytes") {
    std::optional<Node> made = byte_product(rewriter, node.inputs[0]);
    if (!made || made->input(table_input(*made)) != kNoValue ||
        rewriter.value(node.inputs[0]).type != rewriter.value(node.outputs[0]).type ||
        rewriter.constant(node.inputs[1])->shape.rank() != 1)
      return std::nullopt;
    set_input(*made, table_input(*made), node.inputs[1]);
    return made;
  }
  if (!node.domain.empty()) return std::nullopt;
  if (node.op_type == "MatMul" || node.op_type == "Gemm") {
    if (std::optional<Node> made = from_blocks(rewriter, node)) return made;
    return from_matmul(rewriter, node);
  }
  if (node.op_type == "Conv") return from_conv(rewriter, node, rounded);
  if (node.op_type == "BatchNormalization" && rounded[node.outputs[0]]) return norm_of_bytes(rewriter, node);
  if (node.op_type == "QuantizeLinear") {
    const QuantizedEdge edge = quantized(rewriter, node);
    if (edge.node == nullptr) return std::nullopt;
    if (std::optional<Node> softmax = from_softmax(rewriter, node, edge)) return softmax;
    if (std::optional<Node> binary = from_binary(rewriter, node, edge)) return binary;
    if (std::optional<Node> mean = from_mean(rewriter, node, edge)) return mean;
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

bool is_binary(const Node& node) {
  static constexpr std::string_view kBinary[] = {"Add", "Sub", "Mul", "Div", "Max", "Min", "Pow", "PRelu"};
  return node.domain.empty() && node.inputs.size() == 2 &&
         std::ranges::find(kBinary, node.op_type) != std::end(kBinary);
}

// The input of an operation on each element that is not constant: SIZE_MAX where it is no such one. With `channels`
// not 0, the others have one number for each index of axis 1.
struct ElementStep {
  size_t input = SIZE_MAX;
  int64_t channels = 0;
};

// Has `id` one number for each of the channels of x [N, channels, ...]?
bool has_channels(const Rewriter& rewriter, ValueId id, size_t rank, int64_t channels) {
  const ConstantRef& constant = rewriter.constant(id);
  if (!constant || constant->type != DataType::kFloat || constant->shape.element_count() != channels) return false;
  const int axis = constant->shape.rank() - static_cast<int>(rank) + 1;
  return (axis == 0 || axis == 1) && constant->shape[axis] == channels;
}

ElementStep channel_step(const Rewriter& rewriter, const Node& node) {
  // Of smaller planes, reading the tables takes as long as the operators.
  constexpr int64_t kLeastPlane = 512;
  const bool norm = node.domain.empty() && node.op_type == "BatchNormalization" && node.inputs.size() == 5;
  if (!norm && !is_binary(node)) return {};
  for (size_t side : {0, 1}) {
    if (side == 1 && (norm || node.op_type == "PRelu")) break;
    if (!rewriter.is_float(node.inputs[side]) || !rewriter.value(node.inputs[side]).has_rank) continue;
    const std::vector<Dim>& dims = rewriter.value(node.inputs[side]).dims;
    if (dims.size() < 3 || !dims[1].known() || dims[1].value < 1) continue;
    const int64_t channels = dims[1].value;
    int64_t plane = 1;
    for (size_t i = 2; i < dims.size() && plane < kLeastPlane; ++i)
      plane *= dims[i].known() ? dims[i].value : kLeastPlane;
    if (plane < kLeastPlane) continue;
    bool fits = !norm || !read_batch_norm(node).training;
    for (size_t i = 0; i < node.inputs.size() && fits; ++i)
      fits = i == side || has_channels(rewriter, node.inputs[i], norm ? 2 : dims.size(), channels);
    if (fits) return {side, channels};
  }
  return {};
}

ElementStep element_step(const Rewriter& rewriter, const Node& node) {
  if (node.outputs.size() != 1 || !rewriter.is_float(node.outputs[0])) return {};
  if (is_unary(node) && rewriter.is_float(node.input(0))) {
    for (size_t i = 1; i < node.inputs.size(); ++i)
      if (node.inputs[i] != kNoValue && rewriter.constant(node.inputs[i]) == nullptr) return {};
    return {0};
  }
  if (is_binary(node))
    for (size_t side : {0, 1})
      if (rewriter.scalar_beside(node.inputs[1 - side], node.inputs[side])) return {side};
  return channel_step(rewriter, node);
}

// The operands of an operator that computes each byte from those at the same place and from constants; none where it is
// no such one.
std::vector<size_t> byte_operands(const Rewriter& rewriter, const Node& node) {
  static constexpr std::string_view kNames[] = {"QLinearAdd", "QLinearLeakyRelu", "QLinearMul", "QLinearSigmoid"};
  if (node.domain != "com.microsoft" || std::ranges::find(kNames, node.op_type) == std::end(kNames)) return {};
  const Result<QuantizedForm> form = read_quantized_form(node);
  if (!form.ok()) return {};
  const auto is_constant = [&](ValueId id) { return id == kNoValue || rewriter.constant(id) != nullptr; };
  std::vector<size_t> operands;
  for (const ByteInputs& x : form->x) {
    if (!is_constant(node.input(x.scale)) || !is_constant(node.input(x.zero_point))) return {};
    if (!is_constant(node.input(x.data))) operands.push_back(x.data);
  }
  if (operands.empty() || !is_constant(node.input(form->y.scale)) || !is_constant(node.input(form->y.zero_point)))
    return {};
  const ValueId first = node.inputs[operands[0]];
  for (const ByteInputs& x : form->x) {
    const ConstantRef& constant = rewriter.constant(node.input(x.data));
    const bool fits = constant != nullptr
                          ? constant->shape.element_count() == 1 &&
                                static_cast<size_t>(constant->shape.rank()) <= rank_of(rewriter, first)
                          : node.input(x.data) == first || rewriter.same_shape(node.input(x.data), first);
    if (!fits) return {};
  }
  return operands;
}

bool is_identity(const Constant& table) {
  for (size_t i = 0; i < table.size_bytes; ++i)
    if (table.data[i] != static_cast<std::byte>(i)) return false;
  return true;
}

bool has_constant_step(const Rewriter& rewriter, const Node& edge) {
  return rewriter.constant(edge.inputs[1]) != nullptr &&
         (edge.input(2) == kNoValue || rewriter.constant(edge.inputs[2]) != nullptr);
}

// Computes bytes or float32 numbers of a graph for the 256 bytes that are their only source.
class ByteFunction {
 public:
  ByteFunction(Rewriter& rewriter, const PassOptions& options) : rewriter_(rewriter), options_(options) {}

  // The source of the numbers `x` and of everything that was asked before; false where there is no single one.
  bool follow(ValueId x) {
    if (const QuantizedEdge edge = dequantized(rewriter_, x); edge.node != nullptr)
      return has_constant_step(rewriter_, *edge.node) && follow_bytes(edge.bytes);
    constexpr int kMost = 16;
    const Node* maker = rewriter_.read_once(x) ? rewriter_.producer(x) : nullptr;
    if (maker == nullptr || ++operations_ > kMost) return false;
    if (const ElementStep step = element_step(rewriter_, *maker); step.input != SIZE_MAX) {
      if (step.channels != 0) take_channels(step.channels, x);
      return follow(maker->inputs[step.input]);
    }
    return is_binary(*maker) && follow(maker->inputs[0]) && follow(maker->inputs[1]);
  }
  // The same for bytes.
  bool follow_bytes(ValueId x) {
    const Source source = source_of(x);
    if (bytes_ == kNoValue) bytes_ = source.bytes;
    if (source.table != nullptr && source.table->shape.rank() == 2) take_channels(source.table->shape[0], x);
    return bytes_ == source.bytes && rewriter_.constant(bytes_) == nullptr;
  }

  ConstantRef compute(ValueId x) {
    if (const QuantizedEdge edge = dequantized(rewriter_, x); edge.node != nullptr)
      return applied(*edge.node, {0}, {bytes_of(edge.bytes)});
    const Node maker = *rewriter_.producer(x);
    if (const ElementStep step = element_step(rewriter_, maker); step.input != SIZE_MAX)
      return applied(maker, {step.input}, {compute(maker.inputs[step.input])});
    return applied(maker, {0, 1}, {compute(maker.inputs[0]), compute(maker.inputs[1])});
  }
  // The bytes of `x` for each byte of the source, in the order of their bits; null where there is no memory.
  ConstantRef bytes_of(ValueId x) const {
    const Source source = source_of(x);
    std::byte* data = nullptr;
    Result<ConstantRef> made = make_constant(rewriter_.value(x).type, shape(), &data);
    if (!made.ok()) return nullptr;
    if (source.table == nullptr) {
      for (size_t i = 0; i < (*made)->size_bytes; ++i) data[i] = static_cast<std::byte>(i);
      return *std::move(made);
    }
    const size_t period = source.table->size_bytes;
    for (size_t i = 0; i < (*made)->size_bytes; i += period) std::memcpy(data + i, source.table->data, period);
    return *std::move(made);
  }
  // The result of `node` where its inputs at `places` are `x`; null where it cannot be computed.
  ConstantRef applied(const Node& node, const std::vector<size_t>& places, const std::vector<ConstantRef>& x) {
    Node asked = node;
    for (size_t i = 0; i < x.size(); ++i) {
      if (!x[i]) return nullptr;
      asked.inputs[places[i]] = rewriter_.add_constant(node.name + ":bytes", x[i]);
    }
    Value value = rewriter_.value(node.outputs[0]);
    value.constant = nullptr;
    value.set_shape(shape());
    asked.outputs = {rewriter_.add_value(std::move(value))};
    Result<std::vector<ConstantRef>> results = options_.evaluate(rewriter_.graph(), asked);
    // With channels they are large, and the graph keeps its values.
    for (size_t place : places) rewriter_.graph().values[asked.inputs[place]].constant = nullptr;
    return results.ok() && results->size() == 1 ? (*results)[0] : nullptr;
  }

  ValueId bytes() const { return bytes_; }
  Shape table_shape() const { return channels_ == 0 ? Shape{256} : Shape{channels_, 256}; }
  // The most memory that computing it may take.
  size_t work_bytes() const {
    return static_cast<size_t>(table_shape().element_count()) * static_cast<size_t>(8 * operations_ + 6);
  }

 private:
  // `bytes`, or what `table` has for each of them.
  struct Source {
    ValueId bytes = kNoValue;
    ConstantRef table;
  };
  Source source_of(ValueId x) const {
    if (const Node* lookup = rewriter_.made_by(x, "LookupBytes", "tenon"))
      return {lookup->inputs[0], rewriter_.constant(lookup->inputs[1])};
    return {x, nullptr};
  }
  void take_channels(int64_t channels, ValueId x) {
    channels_ = channels;
    rank_ = rank_of(rewriter_, x);
  }
  // Of the values that are computed: 256 elements for each channel, along another axis than the last where there is
  // one.
  Shape shape() const {
    if (channels_ == 0) return Shape{256};
    Shape shape{1, channels_, 256};
    while (static_cast<size_t>(shape.rank()) < rank_) shape.push_back(1);
    return shape;
  }

  Rewriter& rewriter_;
  const PassOptions& options_;
  ValueId bytes_ = kNoValue;
  int64_t channels_ = 0;  // 0: one table for all
  size_t rank_ = 0;
  int operations_ = 0;
};

// Quantize(f(g(... Dequantize(x)))), or QLinearMul(x, QLinearAdd(x, 3)), becomes a table, also where several of them
// meet; one that changes nothing makes `same[y]` x.
void make_table(Rewriter& rewriter, const PassOptions& options, const PerValue<bool>& rounded, NodeId i,
                std::map<ValueId, ValueId>& same) {
  const Node node = rewriter.node(i);
  // A normalisation that is rounded at once becomes a product, which takes less time than a table for each channel.
  const Node* maker = rewriter.producer(node.input(0));
  if (maker != nullptr && maker->op_type == "Activation" && rounded[maker->outputs[0]])
    maker = rewriter.producer(maker->inputs[0]);
  if (maker != nullptr && rounded[maker->outputs[0]] && is_norm_of_bytes(rewriter, *maker)) return;
  ByteFunction function(rewriter, options);
  const std::vector<size_t> operands = byte_operands(rewriter, node);
  if (operands.empty()) {
    if (quantized(rewriter, node).node == nullptr || !has_constant_step(rewriter, node)) return;
    if (!function.follow(node.inputs[0])) return;
  } else {
    for (size_t operand : operands)
      if (!function.follow_bytes(node.inputs[operand])) return;
  }
  if (!rewriter.may_make(function.work_bytes())) return;
  std::vector<ConstantRef> inputs;
  inputs.reserve(operands.size());
  for (size_t operand : operands) inputs.push_back(function.bytes_of(node.inputs[operand]));
  ConstantRef values = operands.empty() ? function.applied(node, {0}, {function.compute(node.inputs[0])})
                                        : function.applied(node, operands, inputs);
  const Shape shape = function.table_shape();
  if (!values || values->size_bytes != static_cast<size_t>(shape.element_count())) return;
  if (rewriter.value(function.bytes()).type == rewriter.value(node.outputs[0]).type && is_identity(*values)) {
    same[node.outputs[0]] = function.bytes();
    rewriter.replace(i, make_node("Identity", 1, node.name, {function.bytes()}, node.outputs));
    return;
  }
  auto table = std::make_shared<Constant>(*values);
  table->shape = shape;
  const ValueId id = rewriter.add_constant(node.name + ":table", std::move(table));
  rewriter.replace(i, make_internal("LookupBytes", node.name, {function.bytes(), id}, node.outputs));
}

}  // namespace

Status pass_quantized_tables(Graph& graph, const PassOptions& options) {
  if (!options.evaluate) return {};
  Rewriter rewriter(graph);
  const PerValue<bool> rounded = rounded_values(rewriter);
  std::map<ValueId, ValueId> same;
  for (NodeId i : rewriter.ids()) {
    if (rewriter.erased(i)) continue;
    const auto is_same = [&](ValueId input) { return same.contains(input); };
    if (const Node& node = rewriter.node(i); std::ranges::any_of(node.inputs, is_same)) {
      Node direct = node;
      for (ValueId& input : direct.inputs)
        if (const auto found = same.find(input); found != same.end()) input = found->second;
      rewriter.replace(i, std::move(direct));
    }
    make_table(rewriter, options, rounded, i, same);
  }
  rewriter.finish();
  return {};
}

Status pass_quantized_products(Graph& graph, const PassOptions&) {
  Rewriter rewriter(graph);
  const PerValue<bool> rounded = rounded_values(rewriter);
  for (NodeId i : rewriter.ids()) {
    if (rewriter.erased(i)) continue;
    const Node& node = rewriter.node(i);
    if (std::optional<Node> made = fuse(rewriter, node, rounded)) {
      made->outputs = node.outputs;
      rewriter.replace(i, std::move(*made));
    }
  }
  rewriter.finish();
  return {};
}

}  // namespace tenon
