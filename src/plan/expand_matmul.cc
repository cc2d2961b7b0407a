// Matrix products, convolutions and pools of com.microsoft.
#include <cstring>
#include <numeric>

#include "plan/expand.h"

namespace tenon::expand {

void activate(Expansion& to, ValueId x, std::string_view name, const std::vector<float>& parameters, ValueId result) {
  const auto parameter = [&](size_t i, float fallback) { return i < parameters.size() ? parameters[i] : fallback; };
  if (name.empty()) {
    to.add("Identity", {x}, {}, result);
  } else if (name == "Relu" || name == "Tanh" || name == "Sigmoid" || name == "HardSwish") {
    to.add(name, {x}, {}, result);
  } else if (name == "LeakyRelu") {
    to.add(name, {x}, {number("alpha", parameter(0, 0.01F))}, result);
  } else if (name == "HardSigmoid") {
    to.add(name, {x}, {number("alpha", parameter(0, 0.2F)), number("beta", parameter(1, 0.5F))}, result);
  } else if (name == "Clip") {
    constexpr float kLargest = std::numeric_limits<float>::max();
    const DataType type = to.type(x);
    to.add(name, {x, to.scalar(parameter(0, -kLargest), type), to.scalar(parameter(1, kLargest), type)}, {}, result);
  } else {
    to.fail(unsupported("{} has the activation \"{}\", which is not known.", to.node().op_type, name));
  }
}

SetAttributes window_attributes(const Expansion& to, std::initializer_list<std::string_view> names) {
  SetAttributes set;
  for (const Attribute& attribute : to.node().attributes) {
    if (std::find(names.begin(), names.end(), attribute.name) == names.end()) continue;
    if (attribute.kind == AttributeKind::kInt) set.push_back(integer(attribute.name, attribute.i));
    if (attribute.kind == AttributeKind::kInts) set.push_back(integers(attribute.name, attribute.ints));
    if (attribute.kind == AttributeKind::kString) set.push_back(text(attribute.name, attribute.s));
  }
  return set;
}

namespace {

// Batch dimensions and the first of a matrix trade places, and then the two of the matrix.
std::vector<int64_t> matrix_order(int rank, bool batch, bool matrix) {
  std::vector<int64_t> order(static_cast<size_t>(rank));
  std::iota(order.begin(), order.end(), 0);
  if (batch) std::rotate(order.begin(), order.begin() + 1, order.end() - 1);
  if (matrix) std::swap(order[order.size() - 1], order[order.size() - 2]);
  return order;
}

ValueId turned(Expansion& to, size_t input, bool batch, bool matrix) {
  const ValueId id = to.in(input);
  const int rank = to.rank(id);
  if (!batch && !matrix) return id;
  if (rank < 0) {
    const char* const equation = !batch ? "...ij->...ji" : matrix ? "i...j->...ji" : "i...j->...ij";
    return to.add("Einsum", {id}, {text("equation", equation)});
  }
  return rank < 2 ? id : to.transpose(id, matrix_order(rank, batch, matrix));
}

void fused_matmul(Expansion& to) {
  const Attributes attributes = to.attributes();
  const auto flag = [&](const char* name) { return attributes.find_integer(name).value_or(0) != 0; };
  const float alpha = attributes.number("alpha");
  const std::string_view activation = attributes.find_text("activation").value_or("");
  const bool batch_b = flag("transBatchB"), matrix_b = flag("transB");
  const ValueId a = turned(to, 0, flag("transBatchA"), flag("transA"));
  const ValueId product = activation.empty() ? to.out(0) : to.new_value();
  // tenon.MatMul reads B's rows as columns, where nothing has to move before.
  const bool direct = to.type(a) == DataType::kFloat && to.type(to.in(1)) == DataType::kFloat && to.rank(a) >= 2 &&
                      to.rank(to.in(1)) >= 2 && !batch_b;
  if (direct) {
    SetAttributes set;
    if (matrix_b) set.push_back(integer("trans_b", 1));
    if (alpha != 1) set.push_back(number("alpha", alpha));
    to.add_node("tenon", "MatMul", {a, to.in(1)}, set, {product});
  } else {
    const ValueId b = turned(to, 1, batch_b, matrix_b);
    const ValueId plain = to.add("MatMul", {a, b}, {}, alpha == 1 ? product : kNoValue);
    if (alpha != 1) to.add("Mul", {plain, to.scalar(alpha, to.type(a))}, {}, product);
  }
  if (activation.empty()) return;
  std::vector<float> parameters;
  for (const char* name : {"activation_alpha", "activation_beta", "activation_gamma"}) {
    if (const auto value = attributes.find_number(name)) parameters.push_back(*value);
  }
  activate(to, product, activation, parameters, to.out(0));
}

// A product with a matrix of 4 bits that another library has packed: by columns in blocks of 32, each a float32 scale,
// a zero point where the kind has them (otherwise 8), and codes of which the i-th and the one 16 behind share a byte.
void packed_matmul(Expansion& to) {
  constexpr int64_t kBlock = 32;
  const int64_t kind = to.attributes().integer("blk_quant_type");
  const ConstantRef packed = to.value(to.in(1)).constant, sizes = to.value(to.in(2)).constant;
  if ((kind != 0 && kind != 1) || packed == nullptr || sizes == nullptr || sizes->type != DataType::kInt64 ||
      sizes->shape != Shape{2}) {
    to.fail(unsupported("MatMulFpQ4 of the kind {} is computed with constants of the kinds 0 and 1 alone.", kind));
    return;
  }
  const int64_t k = sizes->as<int64_t>()[0], n = sizes->as<int64_t>()[1],
                blocks = k / kBlock + (k % kBlock != 0 ? 1 : 0);
  const int64_t each = static_cast<int64_t>(sizeof(float)) + kind + kBlock / 2;
  if (k < 1 || n < 1 || packed->size_bytes / each / blocks != static_cast<size_t>(n)) {
    to.fail(
        invalid_argument("MatMulFpQ4 has {} bytes for a matrix of {} rows and {} columns.", packed->size_bytes, k, n));
    return;
  }
  std::byte* data = nullptr;
  Result<ConstantRef> made = make_constant(DataType::kFloat, Shape{k, n}, &data);
  if (!made.ok()) {
    to.fail(made.status());
    return;
  }
  auto* const b = reinterpret_cast<float*>(data);
  for (int64_t column = 0; column < n; ++column) {
    for (int64_t row = 0; row < k; ++row) {
      const std::byte* const block = packed->data + (column * blocks + row / kBlock) * each;
      float scale = 0;
      std::memcpy(&scale, block, sizeof(scale));
      const int64_t at = row % kBlock, half = kBlock / 2;
      const int zero = kind == 1 ? std::to_integer<int>(block[sizeof(scale)]) : 8;
      const int both = std::to_integer<int>(block[sizeof(scale) + kind + at % half]);
      b[row * n + column] = static_cast<float>((at < half ? both & 15 : both >> 4) - zero) * scale;
    }
  }
  to.add("MatMul", {to.in(0), to.add_constant(*std::move(made))}, {}, to.out(0));
}

void fused_gemm(Expansion& to) {
  const Attributes attributes = to.attributes();
  const ValueId product =
      to.add("Gemm", {to.in(0), to.in(1), to.in(2)},
             {number("alpha", attributes.number("alpha")), number("beta", attributes.number("beta")),
              integer("transA", attributes.integer("transA")), integer("transB", attributes.integer("transB"))});
  std::vector<float> parameters;
  for (const char* name : {"activation_alpha", "activation_beta", "activation_gamma"}) {
    if (const auto value = attributes.find_number(name)) parameters.push_back(*value);
  }
  activate(to, product, attributes.find_text("activation").value_or(""), parameters, to.out(0));
}

std::vector<int64_t> channels_first(int rank) {
  std::vector<int64_t> order{0, rank - 1};
  for (int d = 1; d + 1 < rank; ++d) order.push_back(d);
  return order;
}

std::vector<int64_t> channels_last(int rank) {
  std::vector<int64_t> order{0};
  for (int d = 2; d < rank; ++d) order.push_back(d);
  order.push_back(1);
  return order;
}

void convolve(Expansion& to, bool last) {
  const int rank = to.rank(to.in(0));
  if (last && rank < 3) {
    to.fail(unsupported("{} needs X of a known rank, with channels and positions.", to.node().op_type));
    return;
  }
  const auto first = [&](size_t input) {
    return last && to.has(input) ? to.transpose(to.in(input), channels_first(rank)) : to.in(input);
  };
  ValueId y = to.add("Conv", {first(0), to.in(1), to.in(2)},
                     window_attributes(to, {"auto_pad", "dilations", "group", "kernel_shape", "pads", "strides"}));
  if (to.has(3)) y = to.add("Add", {y, first(3)});
  const std::span<const float> parameters = to.attributes().numbers("activation_params");
  const ValueId result = last ? to.new_value() : to.out(0);
  activate(to, y, to.attributes().find_text("activation").value_or(""), {parameters.begin(), parameters.end()}, result);
  if (last) to.transpose(result, channels_last(rank), to.out(0));
}

void fused_conv(Expansion& to) { convolve(to, false); }
void nhwc_fused_conv(Expansion& to) { convolve(to, true); }

// With channels at the end: the form without, between two transpositions, which meet those of the neighbours.
void quantised_window(Expansion& to) {
  if (!to.attributes().flag("channels_last")) return;
  const int rank = to.rank(to.in(0));
  if (rank < 3) {
    to.fail(unsupported("{} needs an input of a known rank, with channels and positions.", to.node().op_type));
    return;
  }
  std::vector<ValueId> inputs = to.node().inputs;
  inputs[0] = to.transpose(inputs[0], channels_first(rank));
  const ValueId y = to.new_value();
  to.add_node("com.microsoft", to.node().op_type, std::move(inputs),
              window_attributes(to, {"auto_pad", "ceil_mode", "count_include_pad", "dilations", "group", "kernel_shape",
                                     "pads", "strides"}),
              {y});
  to.transpose(y, channels_last(rank), to.out(0));
}

void nhwc_max_pool(Expansion& to) {
  const int rank = to.rank(to.in(0));
  if (rank < 3) {
    to.fail(unsupported("NhwcMaxPool needs an input of a known rank, with channels and positions."));
    return;
  }
  const ValueId pooled =
      to.add("MaxPool", {to.transpose(to.in(0), channels_first(rank))},
             window_attributes(to, {"auto_pad", "ceil_mode", "dilations", "kernel_shape", "pads", "strides"}));
  to.transpose(pooled, channels_last(rank), to.out(0));
}

// Pads are an input here, [begins, ends].
void conv_transpose_with_pads(Expansion& to) {
  SetAttributes set =
      window_attributes(to, {"auto_pad", "dilations", "group", "kernel_shape", "output_padding", "strides"});
  if (to.has(2)) {
    const ConstantRef& pads = to.value(to.in(2)).constant;
    if (pads == nullptr || pads->type != DataType::kInt64) {
      to.fail(unsupported("ConvTransposeWithDynamicPads needs pads that are constant."));
      return;
    }
    const std::span<const int64_t> values = pads->as<int64_t>();
    set.push_back(integers("pads", {values.begin(), values.end()}));
  }
  to.add("ConvTranspose", {to.in(0), to.in(1), to.in(3)}, set, to.out(0));
}

// Distances of the rows of A and those of B, from the squares of both and their products.
void row_distances(Expansion& to) {
  const std::string_view metric = to.attributes().find_text("metric").value_or("sqeuclidean");
  if (metric != "euclidean" && metric != "sqeuclidean") {
    to.fail(unsupported("CDist has the metric \"{}\"; euclidean and sqeuclidean are computed.", metric));
    return;
  }
  const ValueId last = to.constant({-1});
  const auto squares = [&](size_t input) { return to.add("ReduceSumSquare", {to.in(input), last}); };
  const ValueId products = to.add("MatMul", {to.in(0), to.transpose(to.in(1), {1, 0})});
  const ValueId twice = to.add("Mul", {products, to.scalar(2, to.type(to.in(0)))});
  const ValueId both = to.add("Add", {squares(0), to.transpose(squares(1), {1, 0})});
  const bool root = metric == "euclidean";
  // Rounding must not make a distance negative.
  const ValueId distances =
      to.add("Max", {to.add("Sub", {both, twice}), to.scalar(0, to.type(to.in(0)))}, {}, root ? kNoValue : to.out(0));
  if (root) to.add("Sqrt", {distances}, {}, to.out(0));
}

// Experts are computed in float32: what is float16 or bfloat16 becomes that.
void experts(Expansion& to) {
  const DataType type = to.type(to.in(0));
  if (type != DataType::kFloat16 && type != DataType::kBfloat16) return;
  std::vector<ValueId> inputs;
  for (ValueId id : to.node().inputs) inputs.push_back(to.type(id) == type ? to.cast(id, DataType::kFloat) : id);
  SetAttributes set;
  for (const Attribute& attribute : to.node().attributes) {
    if (attribute.kind == AttributeKind::kInt) set.push_back(integer(attribute.name, attribute.i));
    if (attribute.kind == AttributeKind::kFloat) set.push_back(number(attribute.name, attribute.f));
    if (attribute.kind == AttributeKind::kString) set.push_back(text(attribute.name, attribute.s));
  }
  const ValueId wide = to.new_value();
  to.add_node(to.node().domain, to.node().op_type, std::move(inputs), set, {wide});
  to.cast(wide, type, to.out(0));
}

constexpr Row kRows[] = {
    {"com.microsoft", "CDist", &row_distances},
    {"com.microsoft", "ConvTransposeWithDynamicPads", &conv_transpose_with_pads},
    {"com.microsoft", "FusedConv", &fused_conv},
    {"com.microsoft", "FusedGemm", &fused_gemm},
    {"com.microsoft", "FusedMatMul", &fused_matmul},
    {"com.microsoft", "FusedMatMulActivation", &fused_matmul},
    {"com.microsoft", "MatMulFpQ4", &packed_matmul},
    {"com.microsoft", "MoE", &experts},
    {"com.microsoft", "NhwcConv", &nhwc_fused_conv},
    {"com.microsoft", "NhwcFusedConv", &nhwc_fused_conv},
    {"com.microsoft", "NhwcMaxPool", &nhwc_max_pool},
    {"com.microsoft", "QLinearAveragePool", &quantised_window},
    {"com.microsoft", "QLinearConv", &quantised_window},
    {"com.microsoft", "QLinearGlobalAveragePool", &quantised_window},
    {"com.microsoft", "QMoE", &experts},
    {"com.microsoft", "SparseToDenseMatMul", &fused_matmul},
    {"com.microsoft", "TransposeMatMul", &fused_matmul},
};

}  // namespace

std::span<const Row> matmul_rows() { return kRows; }

}  // namespace tenon::expand
