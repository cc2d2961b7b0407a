// Matrix products: with constant weights as a convolution of single pixels, otherwise through cuBLASLt.
#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <map>
#include <optional>

#include "base/format.h"
#include "ep/cuda/compute/kernel_template.h"
#include "ep/cuda/compute/lowering.h"
#include "ep/cuda/ops/conv/op.h"
#include "ep/cuda/ops/elementwise/lower.h"
#include "ep/cuda/ops/matmul/few_rows.h"
#include "ep/cuda/ops/matmul/lower.h"
#include "ep/cuda/ops/matmul/op.h"
#include "ep/cuda/ops/matmul/split_product_op.h"
#include "ops/matmul.h"

namespace tenon::cuda {

namespace {

struct Product : MatMulDesc {
  ValueId a = kNoValue, b = kNoValue, bias = kNoValue, residual = kNoValue;
  Epilogue epilogue;
};

Result<Product> read_product(Lowering& to, const Node& node) {
  TENON_TRY_ASSIGN(const MatMulDesc desc, read_matmul(node, input_shapes(to.graph(), node)));
  TENON_UNSUPPORTED_IF(desc.trans_a, "{} transposes its first input.", to.label(node));
  Product product{desc};
  const MatMulForm& form = product;
  product.a = node.input(form.a);
  product.b = node.input(form.b);
  product.bias = node.input(form.addend);
  product.residual = node.input(form.residual);
  if (node.domain == "tenon") {
    TENON_TRY_ASSIGN(product.epilogue, read_epilogue(node));
  }
  if (product.bias != kNoValue) {
    const bool row = product.addend_row == 0 && (product.addend_column != 0 || product.n == 1);
    TENON_UNSUPPORTED_IF(product.beta != 1 || !row, "{} adds something other than a row.", to.label(node));
    TENON_UNSUPPORTED_IF(to.constant(product.bias) == nullptr, "The bias of {} is only known at run time.",
                         to.label(node));
  }
  for (ValueId id : {product.a, product.b})
    TENON_UNSUPPORTED_IF(to.value(id).dims.size() < 2, "{} multiplies a vector.", to.label(node));
  return product;
}

// [K,N] or [N,K] as [N][K].
void pack_matrix(const Constant& from, bool transposed, DataType type, bool tf32, std::byte* out) {
  std::vector<float> converted;
  if (from.type != DataType::kFloat) converted = floats_of(from);
  const std::span<const float> w = from.type == DataType::kFloat ? from.as<float>() : converted;
  const size_t rows = from.shape[0], columns = from.shape[1];
  const size_t element = data_type_size(type);
  // Blocks that stay in the nearest cache: there are hundreds of millions of bytes.
  constexpr size_t kBlock = 64;
  std::array<float, kBlock * kBlock> block{};
  for (size_t r0 = 0; r0 < rows; r0 += kBlock)
    for (size_t c0 = 0; c0 < columns; c0 += kBlock) {
      const size_t height = std::min(kBlock, rows - r0), width = std::min(kBlock, columns - c0);
      const size_t lines = transposed ? height : width, length = transposed ? width : height;
      for (size_t r = 0; r < height; ++r)
        for (size_t c = 0; c < width; ++c)
          block[transposed ? r * kBlock + c : c * kBlock + r] = w[(r0 + r) * columns + c0 + c];
      for (size_t line = 0; line < lines; ++line) {
        const std::span<float> values(block.data() + line * kBlock, length);
        round_weights(values, type, tf32);
        const size_t at = transposed ? (r0 + line) * columns + c0 : (c0 + line) * rows + r0;
        store_floats(values, type, out + at * element);
      }
    }
}

// A product with weights, were its first operand there as f16 parts.
struct SplitOperands {
  SplitProblem problem;  // no terms: it would not read them
  WeightBound weights;
};

// Whether the work of writing a row's f16 parts, of operand and result, is little beside its product.
bool is_worth_splitting(int64_t depth, int64_t columns) { return depth * columns >= 100 * (depth + columns); }

SplitOperands split_operands_of(Lowering& to, const Product& product) {
  SplitOperands result;
  const ConstantRef& b = to.constant(product.b);
  if (to.options().bounds == nullptr || to.type_of(product.a) != DataType::kFloat || b == nullptr ||
      b->type != DataType::kFloat || b->shape.rank() != 2)
    return result;
  const int64_t depth = product.k, columns = product.n;
  const int64_t rows = depth != 0 ? product.a_batch.element_count() * product.m : 0;
  if (rows > INT32_MAX || depth > INT32_MAX || columns > INT32_MAX) return result;
  SplitProblem problem{.rows = static_cast<int32_t>(rows),
                       .columns = static_cast<int32_t>(columns),
                       .depth = static_cast<int32_t>(depth),
                       .terms = to.options().tf32 ? 2 : 3};
  constexpr size_t kMostBytes = size_t{96} << 20;
  // Nor is a sum so deep that it has to be rounded in parts.
  if (rows <= kRowsThatCostNothing || !is_worth_splitting(depth, columns) || !problem.fits() ||
      problem.further_splits() != 0 || problem.scratch_bytes() > kMostBytes)
    return result;
  // One power of two for all columns: the smallest ones lose 12 of the 39 bits that numbers are known to.
  constexpr float kMostBetweenColumns = 0x1p12F;
  result.weights = to.options().bounds->of(b, product.trans_b);
  if (result.weights.finite && result.weights.largest <= result.weights.least_largest * kMostBetweenColumns &&
      Lowering::can_shift(split_shift(result.weights.largest)) && Lowering::can_shift(std::ilogb(product.alpha)))
    result.problem = problem;
  return result;
}

// An upper bound of |act(y)| where |y| is at most `largest`, for the activations of which one is known.
std::optional<double> bound_after(const Epilogue& epilogue, double largest) {
  switch (epilogue.activation) {
    case Activation::kNone:
    case Activation::kRelu:
    case Activation::kSilu:
    case Activation::kGelu:
    case Activation::kGeluTanh:
    case Activation::kTanh:
      return largest;
    case Activation::kSigmoid:
      return 1.0;
    default:
      return std::nullopt;
  }
}

// False: its first operand is not there as f16 parts.
Result<bool> lower_from_split(Lowering& to, const Node& node, const Product& product) {
  const Lowering::SplitTensor* const x = to.split_tensor(product.a);
  if (x == nullptr) return false;
  const auto [problem, weights] = split_operands_of(to, product);
  if (problem.terms != x->terms) return false;
  const int32_t shift = split_shift(weights.largest);
  const float scale = std::ldexp(product.alpha, -(shift + x->shift));
  SplitProductOp::Tensors tensors{.x = x->tensor};
  TENON_TRY_ASSIGN(tensors.w,
                   to.packed_constant(
                       product.b, format("{} {} terms {}", product.trans_b ? "rows" : "columns", problem.terms, shift),
                       DataType::kFloat16, Shape{problem.columns, problem.depth * problem.terms},
                       [problem = problem, shift, transposed = product.trans_b](const Constant& from, std::byte* out) {
                         std::vector<float> w(from.shape.element_count());
                         pack_matrix(from, transposed, DataType::kFloat, false, reinterpret_cast<std::byte*>(w.data()));
                         split_weights(w, problem, shift, out);
                       }));
  double largest_bias = 0;
  if (product.bias != kNoValue) {
    TENON_TRY_ASSIGN(tensors.bias, to.float_constant(product.bias));
    for (float bias : floats_of(*to.constant(product.bias)))
      largest_bias = std::max<double>(largest_bias, std::fabs(bias));
  }
  const ValueId y = node.outputs[0];
  Lowering::SplitTensor made;
  if (product.residual != kNoValue) {
    TENON_TRY_ASSIGN(tensors.residual, to.plain(product.residual));
  } else if (const auto largest =
                 bound_after(product.epilogue,
                             to.bound(product.a)->norm * weights.norm * std::fabs(product.alpha) + largest_bias)) {
    TENON_TRY_ASSIGN(made,
                     to.make_split_tensor(y, {*largest, *largest * std::sqrt(static_cast<double>(problem.columns))}));
    tensors.y_parts = made.tensor;
  }
  if (made.terms == 0 || !to.only_split(y)) {
    TENON_TRY_ASSIGN(tensors.y, to.make(y));
  }
  to.program().add_op(
      std::make_unique<SplitProductOp>(node.name, problem, scale, product.epilogue, tensors, made.terms, made.shift));
  return true;
}

Status lower_with_weights(Lowering& to, const Node& node, const Product& product) {
  const int64_t depth = product.k, columns = product.n;
  const DataType type = to.type_of(product.a);
  TENON_TRY_ASSIGN(const bool lowered, lower_from_split(to, node, product));
  if (lowered) return Status();
  ConvParams params;
  params.in_c = params.depth = static_cast<int32_t>(depth);
  params.channels = static_cast<int32_t>(columns);
  params.pixels = static_cast<int32_t>(product.a_batch.element_count() * product.m);
  params.scale = product.alpha;
  ConvTensors tensors;
  TENON_TRY_ASSIGN(tensors.x, to.plain(product.a));
  const bool transposed = product.trans_b, round = rounds_to_tf32(type, to.options().tf32, params.pixels);
  const std::string_view order = transposed ? "rows" : "columns";
  TENON_TRY_ASSIGN(tensors.w, matrix_of_weights(to, product.b, type, transposed, round));
  if (const SplitProblem split = choose_split(type, to.options().tf32, to.options().workspace_bytes, params);
      split.terms != 0) {
    tensors.terms = split.terms;
    TENON_TRY_ASSIGN(tensors.parts, to.packed_constant(product.b, format("{} {} terms", order, split.terms),
                                                       DataType::kFloat16, Shape{columns, depth * split.terms + 2},
                                                       [transposed, split](const Constant& from, std::byte* out) {
                                                         std::vector<float> w(from.shape.element_count());
                                                         pack_matrix(from, transposed, DataType::kFloat, false,
                                                                     reinterpret_cast<std::byte*>(w.data()));
                                                         split_weights(w, split, out);
                                                       }));
  }
  if (product.bias != kNoValue) {
    TENON_TRY_ASSIGN(tensors.bias, to.float_constant(product.bias));
    TENON_TRY_ASSIGN(tensors.bias_typed, to.typed_constant(product.bias));
  }
  if (product.residual != kNoValue) {
    TENON_TRY_ASSIGN(tensors.residual, to.plain(product.residual));
  }
  if (depth != 0) {
    TENON_TRY_ASSIGN(tensors.y, to.make(node.outputs[0]));
  }
  if (params.pixels == 0 || columns == 0) return depth != 0 ? Status() : to.make(node.outputs[0]).status();
  if (depth == 0) {
    TENON_TRY_ASSIGN(const TensorId zeros, to.program().add_tensor(type, to.value(node.outputs[0]).shape()));
    TENON_TRY(to.add_zeros(node, zeros));
    return add_epilogue(to, node, zeros, product.bias, product.residual, product.epilogue);
  }
  to.program().add_op(std::make_unique<ConvOp>(node.name, type, params, product.epilogue, tensors));
  return Status();
}

// Elements from one matrix of an operand to the next in the batch; none where that is no single stride.
std::optional<int64_t> batch_stride(const Shape& operand, const Shape& batch, int64_t matrix) {
  const int64_t count = operand.element_count();
  if (count == 1) return int64_t{0};
  return count == batch.element_count() ? std::optional(matrix) : std::nullopt;
}

Status lower_batch(Lowering& to, const Node& node, const Product& product) {
  const Shape& y = product.y;
  BlasProblem problem{.type = to.type_of(product.a), .transposed_w = product.trans_b};
  TENON_UNSUPPORTED_IF(problem.type != to.type_of(product.b), "{} multiplies {} and {}.", to.label(node),
                       data_type_name(problem.type), data_type_name(to.type_of(product.b)));
  TENON_UNSUPPORTED_IF(problem.type != DataType::kFloat && data_type_size(problem.type) != 2, "{} multiplies {}.",
                       to.label(node), data_type_name(problem.type));
  problem.rows = product.m;
  problem.columns = product.n;
  problem.depth = product.k;
  problem.scale = product.alpha;
  problem.batch = product.batch.element_count();
  const int64_t a_matrix = product.m * product.k, b_matrix = product.n * product.k;
  const std::optional<int64_t> x_stride = batch_stride(product.a_batch, product.batch, a_matrix),
                               w_stride = batch_stride(product.b_batch, product.batch, b_matrix);
  problem.x_stride = x_stride.value_or(a_matrix);
  problem.w_stride = w_stride.value_or(b_matrix);
  if (problem.w_stride == 0 && problem.x_stride != 0) {
    problem.rows *= problem.batch;
    problem.batch = 1;
  }
  problem.y_stride = problem.rows * problem.columns;
  TENON_TRY_ASSIGN(TensorId x, to.plain(product.a));
  TENON_TRY_ASSIGN(TensorId w, to.plain(product.b));
  const bool plain_epilogue =
      product.bias == kNoValue && product.residual == kNoValue && product.epilogue.activation == Activation::kNone;
  TensorId out = kNoTensor;
  if (plain_epilogue) {
    TENON_TRY_ASSIGN(out, to.make(node.outputs[0]));
  } else {
    TENON_TRY_ASSIGN(out, to.program().add_tensor(problem.type, y));
  }
  if (y.element_count() == 0) return plain_epilogue ? Status() : to.make(node.outputs[0]).status();
  if (problem.depth == 0) {
    TENON_TRY(to.add_zeros(node, out));
  } else {
    if (!x_stride) {
      TENON_TRY_ASSIGN(x, spread_batch(to, node, x, y));
    }
    if (!w_stride) {
      TENON_TRY_ASSIGN(w, spread_batch(to, node, w, y));
    }
    to.program().add_op(std::make_unique<ProductOp>(node.name, problem, x, w, out));
  }
  if (plain_epilogue) return Status();
  return add_epilogue(to, node, out, product.bias, product.residual, product.epilogue);
}

}  // namespace

Result<TensorId> spread_batch(Lowering& to, const Node& node, TensorId operand, const Shape& y) {
  const DeviceTensor from = to.program().tensor(operand);
  Shape whole = y;
  for (int i = 1; i <= 2; ++i) whole[whole.rank() - i] = from.shape[from.shape.rank() - i];
  TENON_TRY_ASSIGN(const TensorId out, to.program().add_tensor(from.type, whole));
  const std::vector<int64_t> strides = from.strides();
  GeneratedLeaf leaf{.type = from.type, .strides = std::vector<int64_t>(whole.rank(), 0)};
  // The operand's dimensions are the last ones.
  const size_t shift = leaf.strides.size() - strides.size();
  for (size_t i = 0; i < strides.size(); ++i)
    if (from.shape[static_cast<int>(i)] != 1) leaf.strides[shift + i] = strides[i];
  TENON_TRY(to.add_generated(node, "spread",
                             {.dims = {whole.begin(), whole.end()},
                              .type = from.type,
                              .strides = to.program().tensor(out).strides(),
                              .leaves = {std::move(leaf)}},
                             {operand}, {}, out));
  return out;
}

namespace {

// Products of the same rows with weights, whose results attention reads as keys or values, wherever their rows lie.
struct SharedRows {
  std::vector<const Node*> nodes;
  std::vector<Product> products;
};

bool is_read_as_keys(const Lowering& to, ValueId id) {
  const auto& readers = to.readers(id);
  return !to.is_output(id) && !readers.empty() && std::all_of(readers.begin(), readers.end(), [&](NodeId reader) {
    const Node& node = to.graph().nodes[reader];
    return node.domain == "tenon" && node.op_type == "Attention" && node.inputs[0] != id && node.input(3) != id;
  });
}

// Of products that fill the device by themselves nothing would be gained.
bool may_share_rows(Lowering& to, const Node& node, const Product& product) {
  constexpr int64_t kMostTerms = int64_t{1} << 30;
  const DataType type = to.type_of(product.a);
  const ConstantRef& weights = to.constant(product.b);
  const int64_t rows = product.a_batch.element_count() * product.m, vector = 16 / data_type_size(type);
  if (weights == nullptr || weights->shape.rank() != 2 || to.constant(product.a) != nullptr || product.k == 0 ||
      product.n == 0 || rows == 0 || to.value(node.outputs[0]).dims.size() != 3 || product.n % vector != 0 ||
      rows > kMostTerms / product.k || rows * product.k > kMostTerms / product.n)
    return false;
  if (product.alpha != 1 || product.residual != kNoValue || product.epilogue.activation != Activation::kNone)
    return false;
  if (type == DataType::kFloat16 || type == DataType::kBfloat16) return true;
  // Splitting has its own packing of weights.
  const ConvParams params{.pixels = static_cast<int32_t>(rows),
                          .channels = static_cast<int32_t>(product.n),
                          .depth = static_cast<int32_t>(product.k),
                          .in_c = static_cast<int32_t>(product.k)};
  return type == DataType::kFloat && split_operands_of(to, product).problem.terms == 0 &&
         choose_split(type, to.options().tf32, to.options().workspace_bytes, params).terms == 0;
}

// A constant of the parts of several, one after the other; `pack` writes that of a product.
Result<TensorId> joined_constant(Lowering& to, const SharedRows& shared, std::string_view what, DataType type,
                                 const Shape& shape, ValueId Product::* of,
                                 const std::function<void(size_t, const Constant*, std::byte*)>& pack) {
  std::string key = format("joined {} {}", what, data_type_name(type));
  std::vector<ConstantRef> parts;
  std::vector<size_t> offsets;
  const int64_t width = shape.element_count() / std::max<int64_t>(shape[0], 1);
  size_t offset = 0;
  for (const Product& product : shared.products) {
    parts.push_back(to.constant(product.*of));
    offsets.push_back(offset);
    offset += product.n * width * data_type_size(type);
    key += format(":{}x{}{}", static_cast<const void*>(parts.back().get()), product.n, product.trans_b ? "t" : "");
  }
  const ConstantRef first = *std::find_if(parts.begin(), parts.end(), [](const auto& part) { return part != nullptr; });
  TENON_TRY_ASSIGN(const TensorId tensor,
                   to.program().add_constant(type, shape, std::move(key), [parts, offsets, pack](std::byte* out) {
                     for (size_t i = 0; i < parts.size(); ++i) pack(i, parts[i].get(), out + offsets[i]);
                   }));
  to.program().constants[to.program().storage_of(tensor).index].source = first;
  return tensor;
}

Status lower_shared_rows(Lowering& to, const SharedRows& shared) {
  const Product& first = shared.products[0];
  const DataType type = to.type_of(first.a);
  int64_t columns = 0;
  for (const Product& product : shared.products) columns += product.n;
  const int64_t depth = first.k;
  ConvParams params;
  params.in_c = params.depth = static_cast<int32_t>(depth);
  params.channels = static_cast<int32_t>(columns);
  params.pixels = static_cast<int32_t>(first.a_batch.element_count() * first.m);
  ConvTensors tensors;
  TENON_TRY_ASSIGN(tensors.x, to.plain(first.a));
  const bool round = rounds_to_tf32(type, to.options().tf32, params.pixels);
  std::vector<bool> transposed;
  transposed.reserve(shared.products.size());
  for (const Product& product : shared.products) transposed.push_back(product.trans_b);
  TENON_TRY_ASSIGN(
      tensors.w,
      joined_constant(to, shared, round ? "tf32 weights" : "weights", type, Shape{columns, depth}, &Product::b,
                      [transposed, type, round](size_t i, const Constant* from, std::byte* out) {
                        pack_matrix(*from, transposed[i], type, round, out);
                      }));
  const bool biased = std::any_of(shared.products.begin(), shared.products.end(),
                                  [](const Product& product) { return product.bias != kNoValue; });
  if (biased) {
    const auto bias_as = [&](DataType as) {
      return joined_constant(to, shared, "bias", as, Shape{columns}, &Product::bias,
                             [as](size_t, const Constant* from, std::byte* out) {
                               if (from != nullptr) convert_floats(*from, as, out);
                             });
    };
    TENON_TRY_ASSIGN(tensors.bias, bias_as(DataType::kFloat));
    TENON_TRY_ASSIGN(tensors.bias_typed, bias_as(type));
  }
  Shape whole = to.value(shared.nodes[0]->outputs[0]).shape();
  whole[whole.rank() - 1] = columns;
  TENON_TRY_ASSIGN(tensors.y, to.program().add_tensor(type, whole));
  to.program().add_op(
      std::make_unique<ConvOp>(shared.nodes[0]->name, type, params, shared.products[0].epilogue, tensors));
  const std::vector<int64_t> strides = to.program().tensor(tensors.y).strides();
  int64_t at = 0;
  for (size_t i = 0; i < shared.nodes.size(); ++i) {
    to.add_part(shared.nodes[i]->outputs[0], {tensors.y, strides, at});
    at += shared.products[i].n;
  }
  return Status();
}

}  // namespace

// The keys and values of all layers that attend to the same text or sound: many small products of the same rows, each
// of which takes as long as all of them together.
void find_shared_rows(Lowering& to) {
  constexpr int64_t kMostBytes = int64_t{32} << 20;
  std::map<ValueId, SharedRows> found;
  std::map<ValueId, int64_t> bytes;
  for (const Node& node : to.graph().nodes) {
    if ((node.op_type != "MatMul" && node.op_type != "Gemm") || to.is_lowered_by_other(node) ||
        node.outputs.size() != 1 || !is_read_as_keys(to, node.outputs[0]))
      continue;
    const Result<Product> product = read_product(to, node);
    if (!product.ok() || !may_share_rows(to, node, *product)) continue;
    int64_t& of_rows = bytes[product->a];
    const Shape& y = to.value(node.outputs[0]).shape();
    const auto size = static_cast<int64_t>(y.element_count() * data_type_size(to.type_of(product->a)));
    if (of_rows + size > kMostBytes) continue;
    of_rows += size;
    found[product->a].nodes.push_back(&node);
    found[product->a].products.push_back(*product);
  }
  for (const auto& [x, shared] : found) {
    if (shared.nodes.size() < 2) continue;
    for (const Node* node : shared.nodes) to.lower_elsewhere(*node);
    to.lower_by(*shared.nodes[0], [&to, shared = shared] { return lower_shared_rows(to, shared); });
  }
}

void find_weight_bounds(Lowering& to) {
  std::vector<WeightBounds::Wanted> wanted;
  for (const Node& node : to.graph().nodes) {
    if (node.op_type != "MatMul" && node.op_type != "Gemm") continue;
    const ConstantRef& weights = to.constant(node.inputs[1]);
    if (weights == nullptr || weights->type != DataType::kFloat || weights->shape.rank() != 2 ||
        to.type_of(node.inputs[0]) != DataType::kFloat || !is_worth_splitting(weights->shape[0], weights->shape[1]))
      continue;
    if (const Result<Product> product = read_product(to, node); product.ok())
      wanted.push_back({weights, product->trans_b});
  }
  to.options().bounds->find(wanted);
}

Result<TensorId> matrix_of_weights(Lowering& to, ValueId weights, DataType type, bool transposed, bool round) {
  const Shape& from = to.constant(weights)->shape;
  const Shape packed = transposed ? from : Shape{from[1], from[0]};
  return to.packed_constant(weights, format("{}{}", transposed ? "rows" : "columns", round ? " tf32" : ""), type,
                            packed, [type, transposed, round](const Constant& held, std::byte* out) {
                              pack_matrix(held, transposed, type, round, out);
                            });
}

std::optional<RowCandidate> matmul_candidate(Lowering& to, const Node& node) {
  const Result<Product> product = read_product(to, node);
  if (!product.ok()) return std::nullopt;
  const ConstantRef& weights = to.constant(product->b);
  if (weights == nullptr || weights->shape.rank() != 2) return std::nullopt;
  const DataType type = to.type_of(product->a);
  const int64_t rows = product->k == 0 ? 0 : product->a_batch.element_count() * product->m;
  if (to.type_of(product->b) != type || !takes_few_rows(type, rows, product->k, product->n)) return std::nullopt;
  return RowCandidate{.x = product->a,
                      .w = product->b,
                      .bias = product->bias,
                      .residual = product->residual,
                      .transposed = product->trans_b,
                      .scale = product->alpha,
                      .epilogue = product->epilogue,
                      .rows = rows,
                      .depth = product->k,
                      .columns = product->n};
}

int32_t terms_read(Lowering& to, const Node& node) {
  if ((node.op_type != "MatMul" && node.op_type != "Gemm") || to.is_lowered_by_other(node)) return 0;
  const Result<Product> product = read_product(to, node);
  return product.ok() ? split_operands_of(to, *product).problem.terms : 0;
}

Status lower_matmul(Lowering& to, const Node& node) {
  TENON_TRY_ASSIGN(const Product product, read_product(to, node));
  const DataType type = to.type_of(product.a);
  TENON_UNSUPPORTED_IF(type != DataType::kFloat && type != DataType::kFloat16 && type != DataType::kBfloat16,
                       "{} multiplies {}.", to.label(node), data_type_name(type));
  const Value& b = to.value(product.b);
  if (b.constant != nullptr && b.shape().rank() == 2) return lower_with_weights(to, node, product);
  return lower_batch(to, node, product);
}

}  // namespace tenon::cuda
