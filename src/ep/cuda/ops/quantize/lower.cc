// Products and convolutions of 8-bit integers, with or without scales around them, and DynamicQuantizeLinear.
#include <algorithm>
#include <array>
#include <functional>
#include <numeric>

#include "base/format.h"
#include "ep/cuda/compute/map_template.h"
#include "ep/cuda/compute/quantize.h"
#include "ep/cuda/ops/conv/lower.h"
#include "ep/cuda/ops/matmul/lower.h"
#include "ep/cuda/ops/quantize/integer_maps_params.h"
#include "ep/cuda/ops/quantize/op.h"
#include "ep/cuda/ops/reduce/reduce.h"
#include "ops/matmul.h"

namespace tenon::cuda {

namespace {

constexpr const char* kMapsHeader = "ep/cuda/ops/quantize/integer_maps.cuh";

// Below this many products the tensor cores gain nothing: one kernel reads the operands as they are.
constexpr int64_t kFewProducts = int64_t{1} << 16;

bool is_byte(DataType type) { return type == DataType::kUint8 || type == DataType::kInt8; }

int64_t padded_depth(int64_t depth) { return std::max<int64_t>((depth + 15) / 16 * 16, 16); }

Result<int32_t> narrow(const Lowering& to, const Node& node, int64_t size) {
  TENON_UNSUPPORTED_IF(size > INT32_MAX, "{} has a product of {} rows or columns.", to.label(node), size);
  return static_cast<int32_t>(size);
}

int integer_at(const Constant& constant, size_t index) {
  return constant.type == DataType::kUint8 ? int{constant.as<uint8_t>()[index]} : int{constant.as<int8_t>()[index]};
}

// The operands of a product before they are packed.
struct Operands {
  ValueId a = kNoValue, b = kNoValue, a_zero = kNoValue, b_zero = kNoValue;
};

Status check_operands(const Lowering& to, const Node& node, const Operands& operands) {
  for (ValueId id : {operands.a, operands.b})
    TENON_UNSUPPORTED_IF(!is_byte(to.type_of(id)), "{} multiplies {}.", to.label(node), data_type_name(to.type_of(id)));
  for (const auto& [value, zero] : {std::pair(operands.a, operands.a_zero), std::pair(operands.b, operands.b_zero)})
    TENON_INVALID_IF(zero != kNoValue && to.type_of(zero) != to.type_of(value), "{} has a zero point of type {}.",
                     to.label(node), data_type_name(to.type_of(zero)));
  return Status();
}

// A zero point that is known to be 0 is none.
Result<TensorId> zero_point(Lowering& to, ValueId id) {
  if (id == kNoValue) return kNoTensor;
  if (const ConstantRef& held = to.constant(id)) {
    bool nothing = true;
    for (size_t i = 0; i < held->size_bytes; ++i) nothing = nothing && held->data[i] == std::byte{0};
    if (nothing) return kNoTensor;
  }
  return to.plain(id);
}

// The sums of the rows of a matrix of bytes.
Result<TensorId> row_sums(Lowering& to, const Node& node, TensorId matrix, int64_t rows, int64_t depth) {
  TENON_TRY_ASSIGN(const TensorId sums, to.program().add_tensor(DataType::kInt32, Shape{rows}));
  if (rows == 0) return sums;
  TENON_TRY(add_reduction(to, node, "row_sums",
                          {.dims = {rows},
                           .strides = {depth},
                           .out_strides = {1},
                           .reduced = {depth},
                           .reduced_strides = {1},
                           .type = to.program().tensor(matrix).type,
                           .out_type = DataType::kInt32,
                           .kind = ReduceKind::kSum},
                          matrix, sums));
  return sums;
}

// Copies `from` as dense lines of bytes: element k of a line lies at k / inner * strides[2] + k % inner * strides[3].
Result<TensorId> pack_lines(Lowering& to, const Node& node, TensorId from, int64_t matrices, int64_t lines,
                            int64_t depth, int64_t inner, const std::array<int64_t, 4>& strides) {
  const std::vector<int64_t> dims = {matrices, lines, padded_depth(depth)};
  const DataType type = to.program().tensor(from).type;
  TENON_TRY_ASSIGN(const TensorId packed, to.program().add_tensor(type, Shape{dims[0], dims[1], dims[2]}));
  PackLinesParams params{.map = map_params(dims), .depth = depth, .inner = make_divisor(inner), .strides = {}};
  std::copy(strides.begin(), strides.end(), params.strides);
  TENON_TRY(add_map(to, node, "pack_lines", kMapsHeader,
                    template_instance("pack_lines", is_wide(to, dims, {from, packed})), params, params.map.count,
                    {from}, {packed}));
  return packed;
}

// Constant lines, packed on the host, and their sums; `at` finds element [line, k] in the constant.
struct PackedLines {
  TensorId lines = kNoTensor, sums = kNoTensor;
};
Result<PackedLines> pack_constant(Lowering& to, ValueId id, const std::string& format_name, int64_t lines,
                                  int64_t depth, const std::function<int64_t(int64_t line, int64_t k)>& at) {
  const DataType type = to.type_of(id);
  const int64_t padded = padded_depth(depth);
  PackedLines packed;
  TENON_TRY_ASSIGN(packed.lines, to.packed_constant(id, format_name, type, Shape{int64_t{1}, lines, padded},
                                                    [=](const Constant& from, std::byte* out) {
                                                      for (int64_t line = 0; line < lines; ++line)
                                                        for (int64_t k = 0; k < padded; ++k)
                                                          out[line * padded + k] =
                                                              k < depth ? from.data[at(line, k)] : std::byte{0};
                                                    }));
  TENON_TRY_ASSIGN(packed.sums, to.packed_constant(id, format_name + " sums", DataType::kInt32, Shape{lines},
                                                   [=](const Constant& from, std::byte* out) {
                                                     auto* const sums = reinterpret_cast<int32_t*>(out);
                                                     for (int64_t line = 0; line < lines; ++line) {
                                                       sums[line] = 0;
                                                       for (int64_t k = 0; k < depth; ++k)
                                                         sums[line] += integer_at(from, at(line, k));
                                                     }
                                                   }));
  return packed;
}

// Adds the product itself, with the sums that zero points need, once the operands are packed.
Status add_product(Lowering& to, const Node& node, IntegerTensors tensors, IntegerProductParams params,
                   bool b_repeats) {
  const int64_t rows = int64_t{params.batch} * params.rows;
  const int64_t b_rows = (b_repeats ? 1 : int64_t{params.batch}) * params.columns;
  if (tensors.b_zero != kNoTensor) {
    TENON_TRY_ASSIGN(tensors.a_sums, row_sums(to, node, tensors.a, rows, params.depth));
  } else {
    tensors.a_sums = kNoTensor;
  }
  if (tensors.a_zero == kNoTensor) {
    tensors.b_sums = kNoTensor;
  } else if (tensors.b_sums == kNoTensor) {
    TENON_TRY_ASSIGN(tensors.b_sums, row_sums(to, node, tensors.b, b_rows, params.depth));
  }
  params.a_matrix = int64_t{params.rows} * params.depth;
  params.b_matrix = b_repeats ? 0 : int64_t{params.columns} * params.depth;
  const DataType a = to.program().tensor(tensors.a).type, b = to.program().tensor(tensors.b).type;
  to.program().add_op(std::make_unique<IntegerProductOp>(node.name, a, b, params, tensors));
  return Status();
}

// The inputs that quantise sums: scales of both operands and of the result, its zero point, and a bias.
struct Scales {
  ValueId a = kNoValue, b = kNoValue, y = kNoValue, zero = kNoValue, bias = kNoValue;
};

// Whether the kernel that makes the sums can quantise them: one scale of each but, for the columns, of the second.
bool can_quantize(const Lowering& to, const Node& node, const Scales& scales, int64_t columns) {
  const auto has = [&](ValueId id, DataType type, bool by_column) {
    const int64_t count = to.value(id).shape().element_count();
    return to.value(id).type == type && to.type_of(id) == type && (count == 1 || (by_column && count == columns));
  };
  const DataType type = to.type_of(node.outputs[0]);
  return is_byte(type) && has(scales.a, DataType::kFloat, false) && has(scales.b, DataType::kFloat, true) &&
         has(scales.y, DataType::kFloat, false) && has(scales.zero, type, false) &&
         (scales.bias == kNoValue ||
          (has(scales.bias, DataType::kInt32, true) && to.value(scales.bias).shape().element_count() == columns));
}

Status scale_product(Lowering& to, const Node& node, const Scales& scales, IntegerTensors& tensors,
                     IntegerProductParams& params) {
  TENON_TRY_ASSIGN(tensors.a_scale, to.plain(scales.a));
  TENON_TRY_ASSIGN(tensors.b_scale, to.plain(scales.b));
  TENON_TRY_ASSIGN(tensors.y_scale, to.plain(scales.y));
  TENON_TRY_ASSIGN(tensors.y_zero, to.plain(scales.zero));
  if (scales.bias != kNoValue) {
    TENON_TRY_ASSIGN(tensors.bias, to.plain(scales.bias));
  }
  params.b_scale_step = to.program().tensor(tensors.b_scale).shape.element_count() > 1 ? 1 : 0;
  params.signed_result = to.type_of(node.outputs[0]) == DataType::kInt8 ? 1 : 0;
  return Status();
}

// The operands of the kernels' SumWriter: none where the result are the sums themselves.
struct SumOperands {
  DataType result = DataType::kInt32;
  SumParams params;
  TensorId a_scale = kNoTensor, b_scale = kNoTensor, y_scale = kNoTensor, y_zero = kNoTensor, bias = kNoTensor;

  // `reads`, then these, in the order of the kernels' parameters.
  std::vector<TensorId> behind(std::vector<TensorId> reads) const {
    reads.insert(reads.end(), {a_scale, b_scale, y_scale, y_zero, bias});
    return reads;
  }
};

Result<SumOperands> sum_operands(Lowering& to, const Node& node, const Scales* scales) {
  SumOperands operands;
  if (scales == nullptr) return operands;
  operands.result = to.type_of(node.outputs[0]);
  operands.params.scale_step = to.value(scales->b).shape().element_count() > 1 ? 1 : 0;
  TENON_TRY_ASSIGN(operands.a_scale, to.plain(scales->a));
  TENON_TRY_ASSIGN(operands.b_scale, to.plain(scales->b));
  TENON_TRY_ASSIGN(operands.y_scale, to.plain(scales->y));
  TENON_TRY_ASSIGN(operands.y_zero, to.plain(scales->zero));
  if (scales->bias != kNoValue) {
    TENON_TRY_ASSIGN(operands.bias, to.plain(scales->bias));
  }
  return operands;
}

// 1 for a zero point of each output, 0 for one in all or none.
int32_t zero_step(Lowering& to, TensorId zero) {
  return zero != kNoTensor && to.program().tensor(zero).shape.element_count() > 1 ? 1 : 0;
}

bool has_few_products(const Shape& y, int64_t depth) {
  return y.element_count() * std::max<int64_t>(depth, 1) <= kFewProducts;
}

// Sums into `out`, [batch..., rows, columns]; with scales quantised ones, where the products are not few.
Status add_matrices(Lowering& to, const Node& node, const MatMulDesc& desc, const Operands& operands, TensorId out,
                    const Scales* scales) {
  const Shape& y = desc.y;
  for (ValueId id : {operands.a, operands.b})
    TENON_UNSUPPORTED_IF(to.value(id).dims.size() < 2, "{} multiplies a vector.", to.label(node));
  const int64_t depth = desc.k, columns = desc.n;
  int64_t rows = desc.m, batch = desc.batch.element_count();
  const bool b_repeats = desc.b_batch.element_count() == 1;
  if (b_repeats) rows *= batch, batch = 1;
  TENON_TRY_ASSIGN(TensorId a_zero, zero_point(to, operands.a_zero));
  TENON_TRY_ASSIGN(TensorId b_zero, zero_point(to, operands.b_zero));
  const auto step = [&](TensorId zero, int64_t wanted, const char* of) -> Result<int32_t> {
    if (zero == kNoTensor) return 0;
    const int64_t count = to.program().tensor(zero).shape.element_count();
    TENON_UNSUPPORTED_IF(count != 1 && count != wanted, "{} has {} zero points for {} {}.", to.label(node), count,
                         wanted, of);
    return count == 1 ? 0 : 1;
  };
  IntegerProductParams params;
  TENON_TRY_ASSIGN(params.a_zero_step, step(a_zero, batch * rows, "rows"));
  TENON_TRY_ASSIGN(params.b_zero_step, step(b_zero, columns, "columns"));
  if (y.element_count() == 0) return Status();
  // A matrix that several others meet is there for each of them.
  const auto whole = [&](ValueId id, const Shape& own) -> Result<TensorId> {
    TENON_TRY_ASSIGN(const TensorId tensor, to.plain(id));
    if (own.element_count() == desc.batch.element_count() || to.value(id).shape().element_count() == 0) return tensor;
    return spread_batch(to, node, tensor, y);
  };
  const auto plain_b = [&] { return b_repeats ? to.plain(operands.b) : whole(operands.b, desc.b_batch); };
  TENON_TRY_ASSIGN(const TensorId a_tensor, whole(operands.a, desc.a_batch));
  if (has_few_products(y, depth)) {
    TENON_TRY_ASSIGN(const TensorId b_tensor, plain_b());
    const std::vector<int64_t> dims = {batch, rows, columns};
    const SmallProductParams small{.map = map_params(dims),
                                   .rows = rows,
                                   .columns = columns,
                                   .depth = depth,
                                   .b_matrix = b_repeats ? 0 : depth * columns,
                                   .a_zero_step = params.a_zero_step,
                                   .b_zero_step = params.b_zero_step};
    return add_map(to, node, "integer_product", kMapsHeader,
                   template_instance("small_integer_product", to.program().tensor(a_tensor).type,
                                     to.program().tensor(b_tensor).type, is_wide(to, dims, {a_tensor, b_tensor, out})),
                   small, small.map.count, {a_tensor, b_tensor, a_zero, b_zero}, {out});
  }
  const int64_t padded = padded_depth(depth);
  TENON_TRY_ASSIGN(params.rows, narrow(to, node, rows));
  TENON_TRY_ASSIGN(params.columns, narrow(to, node, columns));
  TENON_TRY_ASSIGN(params.depth, narrow(to, node, padded));
  TENON_TRY_ASSIGN(params.batch, narrow(to, node, batch));
  params.summed_depth = static_cast<int32_t>(depth);
  IntegerTensors tensors{.a = a_tensor, .a_zero = a_zero, .b_zero = b_zero, .y = out};
  if (scales != nullptr) {
    TENON_TRY(scale_product(to, node, *scales, tensors, params));
  }
  if (depth != padded) {
    TENON_TRY_ASSIGN(tensors.a, pack_lines(to, node, a_tensor, batch, rows, depth, 1, {rows * depth, depth, 1, 0}));
  }
  if (to.constant(operands.b) != nullptr && b_repeats) {
    TENON_TRY_ASSIGN(const PackedLines packed,
                     pack_constant(to, operands.b, "bytes", columns, depth,
                                   [columns](int64_t line, int64_t k) { return k * columns + line; }));
    tensors.b = packed.lines;
    tensors.b_sums = packed.sums;
  } else {
    TENON_TRY_ASSIGN(const TensorId b_tensor, plain_b());
    TENON_TRY_ASSIGN(tensors.b, pack_lines(to, node, b_tensor, b_repeats ? 1 : batch, columns, depth, 1,
                                           {depth * columns, 1, columns, 0}));
  }
  return add_product(to, node, tensors, params, b_repeats);
}

// Weights in the order of windows, [output][tap][channel], and their sums where they are constants.
Result<PackedLines> pack_window_weights(Lowering& to, const Node& node, ValueId id, int64_t depth) {
  const Shape w = to.value(id).shape();
  const int64_t channels = w[1], taps = depth / std::max<int64_t>(channels, 1);
  if (to.constant(id) != nullptr)
    return pack_constant(to, id, "byte windows", w[0], depth,
                         [=](int64_t line, int64_t k) { return line * depth + k % channels * taps + k / channels; });
  PackedLines packed;
  TENON_TRY_ASSIGN(const TensorId weights, to.plain(id));
  TENON_TRY_ASSIGN(packed.lines,
                   pack_lines(to, node, weights, 1, w[0], depth, std::max<int64_t>(channels, 1), {0, depth, 1, taps}));
  return packed;
}

// The parameters that all convolutions of bytes without tensor cores have in common.
IntegerConvParams conv_params(Lowering& to, const ConvDesc& conv, const std::vector<int64_t>& dims, TensorId b_zero,
                              const SumOperands& sum) {
  IntegerConvParams params{.map = map_params(dims),
                           .window = window_params(conv.window),
                           .group_outputs = make_divisor(std::max<int64_t>(conv.group_outputs(), 1)),
                           .channels = conv.channels,
                           .group_channels = conv.group_channels(),
                           .outputs = conv.outputs,
                           .plane = conv.window.in_count(),
                           .taps = conv.window.kernel_count(),
                           .b_zero_step = zero_step(to, b_zero),
                           .sum = sum.params};
  for (int d = 0; d < conv.spatial(); ++d) params.out[d] = conv.axis(d).out;
  return params;
}

// Groups of several outputs and of whole fours of channels: a thread makes up to eight outputs of a pixel.
Status add_grouped_conv(Lowering& to, const Node& node, const Operands& operands, const ConvDesc& conv, TensorId a_zero,
                        TensorId b_zero, TensorId out, const Scales* scales) {
  const Shape w = to.value(operands.b).shape();
  const int64_t depth = w.element_count() / w[0];
  constexpr int64_t kFewChannels = 16;  // the loop over them is unrolled
  int64_t each = 8;
  while (conv.group_outputs() % each != 0) --each;
  TENON_TRY_ASSIGN(const TensorId from, to.plain(operands.a));
  TENON_TRY_ASSIGN(PackedLines packed, pack_window_weights(to, node, operands.b, depth));
  if (packed.sums == kNoTensor) {
    TENON_TRY_ASSIGN(packed.sums, row_sums(to, node, packed.lines, w[0], padded_depth(depth)));
  }
  TENON_TRY_ASSIGN(const SumOperands sum, sum_operands(to, node, scales));
  std::vector<int64_t> dims = dims_of(to.program().tensor(out).shape);
  dims[1] = w[0] / each;
  IntegerConvParams params = conv_params(to, conv, dims, b_zero, sum);
  params.line = padded_depth(depth);
  params.depth = static_cast<int32_t>(depth);
  return add_map(
      to, node, "integer_groups", kMapsHeader,
      template_instance("integer_groups", to.program().tensor(from).type, to.program().tensor(packed.lines).type,
                        sum.result, each, conv.group_channels() <= kFewChannels ? conv.group_channels() : 0,
                        is_wide(to, dims, {from, packed.lines, out}), kernel_arguments(conv.window)),
      params, params.map.count, sum.behind({from, packed.lines, packed.sums, a_zero, b_zero}), {out});
}

// A thread makes a few pixels of a channel that has its own window.
Status add_depthwise_conv(Lowering& to, const Node& node, const Operands& operands, const ConvDesc& conv,
                          TensorId a_zero, TensorId b_zero, TensorId out, const Scales* scales) {
  const DepthwiseStrips strips(to.value(operands.a).shape(), to.program().tensor(out).shape, conv_window(conv));
  TENON_TRY_ASSIGN(const TensorId from, to.plain(operands.a));
  TENON_TRY_ASSIGN(const TensorId weights, to.plain(operands.b));
  TENON_TRY_ASSIGN(const SumOperands sum, sum_operands(to, node, scales));
  const IntegerDepthwiseParams params{.conv = strips.params(), .b_zero_step = zero_step(to, b_zero), .sum = sum.params};
  return add_map(
      to, node, "integer_depthwise", kMapsHeader,
      template_instance("integer_depthwise", to.program().tensor(from).type, to.program().tensor(weights).type,
                        sum.result, strips.arguments(), is_wide(to, strips.dims(), {from, weights, out})),
      params, params.conv.map.count, sum.behind({from, weights, a_zero, b_zero}), {out});
}

// A thread an output element, or a few.
Status add_plain_conv(Lowering& to, const Node& node, const Operands& operands, const ConvDesc& conv, TensorId a_zero,
                      TensorId b_zero, TensorId out, const Scales* scales) {
  TENON_TRY_ASSIGN(const TensorId from, to.plain(operands.a));
  TENON_TRY_ASSIGN(const TensorId weights, to.plain(operands.b));
  TENON_TRY_ASSIGN(const SumOperands sum, sum_operands(to, node, scales));
  // Of large images a thread makes neighbouring pixels, which share the weights that it reads.
  constexpr int64_t kPixels = 4, kManyElements = int64_t{1} << 18;
  const Shape y = to.program().tensor(out).shape;
  const int64_t pixels = y.element_count() >= kManyElements ? kPixels : 1;
  std::vector<int64_t> dims = dims_of(y);
  dims.back() = (dims.back() + pixels - 1) / pixels;
  const IntegerConvParams params = conv_params(to, conv, dims, b_zero, sum);
  return add_map(
      to, node, "integer_conv", kMapsHeader,
      template_instance("integer_conv", to.program().tensor(from).type, to.program().tensor(weights).type, sum.result,
                        pixels, is_wide(to, dims, {from, weights, out}), kernel_arguments(conv.window)),
      params, params.map.count, sum.behind({from, weights, a_zero, b_zero}), {out});
}

// The windows as rows of bytes [tap][channel]; outside of the image lie zero points. A thread writes 16 bytes:
// channels of one tap that lie together where there are so many.
Result<TensorId> write_windows(Lowering& to, const Node& node, ValueId image, TensorId zero, const ConvDesc& conv,
                               int64_t pixels, int64_t padded) {
  constexpr int64_t kBytes = 16;
  const bool vectors = conv.channels % kBytes == 0;
  TENON_TRY_ASSIGN(const TensorId from, vectors ? to.channels_last(image) : to.any(image));
  TENON_TRY_ASSIGN(const TensorId rows, to.program().add_tensor(to.program().tensor(from).type, Shape{pixels, padded}));
  const std::vector<int64_t> strides = to.program().tensor(from).strides();
  ByteWindowsParams params{.window = window_params(conv.window),
                           .channels = make_divisor(vectors ? conv.channels / kBytes : conv.channels),
                           .depth = conv.channels * conv.window.kernel_count(),
                           .image_stride = strides[0],
                           .channel_stride = strides[1]};
  std::vector<int64_t> dims = {conv.batch};
  for (int d = 0; d < conv.spatial(); ++d) {
    dims.push_back(conv.axis(d).out);
    params.taps[d] = make_divisor(conv.axis(d).kernel);
    params.strides[d] = strides[d + 2];
  }
  dims.push_back(padded / kBytes);
  params.map = map_params(dims);
  TENON_TRY(add_map(to, node, "byte_windows", kMapsHeader,
                    template_instance("byte_windows", conv.spatial(), vectors, is_wide(to, dims, {from, rows})), params,
                    params.map.count, {from, zero}, {rows}));
  return rows;
}

// Whether the product's kernel can read the windows itself: whole vectors of channels, and nobody needs the rows' sums.
bool reads_windows(const Lowering& to, const Operands& operands, const Shape& x, TensorId b_zero) {
  return (x.rank() == 3 || x.rank() == 4) && x[1] % 16 == 0 && x.element_count() <= INT32_MAX && b_zero == kNoTensor &&
         (operands.a_zero == kNoValue || to.constant(operands.a_zero) != nullptr);
}

Status read_windows(Lowering& to, const Operands& operands, const ConvDesc& conv, IntegerTensors& tensors,
                    IntegerProductParams& params) {
  const ConvWindow window = conv_window(conv);
  const WindowAxis height = conv.spatial() == 2 ? conv.window.axes.front() : WindowAxis{};
  const WindowAxis& width = conv.window.axes.back();
  TENON_TRY_ASSIGN(tensors.a, to.channels_last(operands.a));
  if (tensors.a_zero != kNoTensor) {
    TENON_TRY_ASSIGN(tensors.outside, to.packed_constant(operands.a_zero, "outside", to.type_of(operands.a), Shape{16},
                                                         [](const Constant& from, std::byte* out) {
                                                           std::fill(out, out + 16, from.data[0]);
                                                         }));
  }
  params.channels = static_cast<int32_t>(conv.channels);
  params.in_h = static_cast<int32_t>(height.in), params.in_w = static_cast<int32_t>(width.in);
  params.out_h = static_cast<int32_t>(height.out), params.out_w = static_cast<int32_t>(width.out);
  const auto set = [](const std::array<int64_t, 2>& from, int32_t& h, int32_t& v) {
    h = static_cast<int32_t>(from[0]), v = static_cast<int32_t>(from[1]);
  };
  set(window.kernel, params.kernel_h, params.kernel_w);
  set(window.stride, params.stride_h, params.stride_w);
  set(window.dilation, params.dilation_h, params.dilation_w);
  set(window.pad, params.pad_h, params.pad_w);
  return Status();
}

// Sums of a convolution as a new tensor or, where `direct`, as the node's value; with scales that is quantised.
Result<TensorId> add_conv(Lowering& to, const Node& node, const Operands& operands, bool direct, const Scales* scales) {
  const Shape x = to.value(operands.a).shape(), w = to.value(operands.b).shape();
  TENON_TRY_ASSIGN(const ConvDesc conv, read_conv(node, x, w));
  const Shape y = conv.output();
  const int64_t group = conv.group;
  TENON_TRY_ASSIGN(const TensorId a_zero, zero_point(to, operands.a_zero));
  TENON_TRY_ASSIGN(const TensorId b_zero, zero_point(to, operands.b_zero));
  for (const auto& [zero, wanted] : {std::pair(a_zero, int64_t{1}), std::pair(b_zero, w[0])})
    if (zero != kNoTensor) {
      const int64_t count = to.program().tensor(zero).shape.element_count();
      TENON_UNSUPPORTED_IF(count != 1 && count != wanted, "{} has {} zero points.", to.label(node), count);
    }
  const int64_t depth = w.element_count() / std::max<int64_t>(w[0], 1);
  const bool plain = group != 1 || y.element_count() * std::max<int64_t>(depth, 1) <= kFewProducts;
  const auto make = [&](DeviceLayout layout) -> Result<TensorId> {
    if (direct) return to.make(node.outputs[0], layout);
    return to.program().add_tensor(DataType::kInt32, y, layout);
  };
  if (plain) {
    TENON_TRY_ASSIGN(const TensorId out, make(DeviceLayout::kPlain));
    if (y.element_count() == 0) return out;
    const bool fours = group != 1 && w[1] % 4 == 0 && w[0] / group > 1 && w.element_count() != 0;
    if (DepthwiseStrips::serve(x, w, group)) {
      TENON_TRY(add_depthwise_conv(to, node, operands, conv, a_zero, b_zero, out, scales));
      return out;
    }
    TENON_TRY(fours ? add_grouped_conv(to, node, operands, conv, a_zero, b_zero, out, scales)
                    : add_plain_conv(to, node, operands, conv, a_zero, b_zero, out, scales));
    return out;
  }
  TENON_TRY_ASSIGN(const TensorId out, make(DeviceLayout::kChannelsLast));
  const int64_t padded = padded_depth(depth), pixels = y.element_count() / y[1];
  IntegerProductParams params;
  IntegerTensors tensors{.a_zero = a_zero, .b_zero = b_zero, .y = out};
  if (reads_windows(to, operands, x, b_zero)) {
    TENON_TRY(read_windows(to, operands, conv, tensors, params));
  } else {
    TENON_TRY_ASSIGN(tensors.a, write_windows(to, node, operands.a, a_zero, conv, pixels, padded));
  }
  TENON_TRY_ASSIGN(params.rows, narrow(to, node, pixels));
  TENON_TRY_ASSIGN(params.columns, narrow(to, node, w[0]));
  TENON_TRY_ASSIGN(params.depth, narrow(to, node, padded));
  params.summed_depth = static_cast<int32_t>(depth);
  params.b_zero_step = zero_step(to, b_zero);
  if (scales != nullptr) {
    TENON_TRY(scale_product(to, node, *scales, tensors, params));
  }
  TENON_TRY_ASSIGN(const PackedLines packed, pack_window_weights(to, node, operands.b, depth));
  tensors.b = packed.lines;
  tensors.b_sums = packed.sums;
  TENON_TRY(add_product(to, node, tensors, params, true));
  return out;
}

// The sums as quantised numbers: inputs from `scales` on are the scales of both operands, of the result, and its zero
// point; the second may have one for each index of dimension `axis`.
Status requantize(Lowering& to, const Node& node, TensorId sums, std::array<ValueId, 4> scales, ValueId bias,
                  int axis) {
  const DeviceTensor tensor = to.program().tensor(sums);
  const DataType type = to.type_of(node.outputs[0]);
  TENON_TRY_ASSIGN(const TensorId out, to.make(node.outputs[0], tensor.layout));
  if (tensor.shape.element_count() == 0) return Status();
  GeneratedElementwise kernel{.dims = dims_of(tensor.shape),
                              .type = type,
                              .strides = to.program().tensor(out).strides(),
                              .leaves = {{.type = tensor.type, .strides = tensor.strides()}}};
  std::vector<TensorId> leaves = {sums};
  const auto leaf = [&](ValueId id) -> Result<int> {
    TENON_TRY_ASSIGN(const TensorId read, to.plain(id));
    const DeviceTensor parameter = to.program().tensor(read);
    std::vector<int64_t> strides(tensor.shape.rank(), 0);
    if (parameter.shape.element_count() != 1) {
      TENON_UNSUPPORTED_IF(parameter.shape.element_count() != tensor.shape[axis], "{} has a scale or bias of {}.",
                           to.label(node), parameter.shape.to_string());
      strides[axis] = 1;
    }
    kernel.leaves.push_back({.type = parameter.type, .strides = std::move(strides)});
    leaves.push_back(read);
    return static_cast<int>(leaves.size() - 1);
  };
  std::vector<int> arguments = {0};
  for (ValueId id : scales) {
    TENON_TRY_ASSIGN(const int argument, leaf(id));
    arguments.push_back(argument);
  }
  std::string sum = "$0";
  if (bias != kNoValue) {
    TENON_TRY_ASSIGN(const int argument, leaf(bias));
    arguments.push_back(argument);
    sum = "($0 + $5)";
  }
  const char* lowest = type == DataType::kUint8 ? "0.0f" : "-128.0f";
  const char* highest = type == DataType::kUint8 ? "255.0f" : "127.0f";
  TENON_UNSUPPORTED_IF(!is_byte(type), "{} makes {}.", to.label(node), data_type_name(type));
  kernel.steps = {{.type = type,
                   .expression = format("fminf(fmaxf(rintf((float){} * ($1 * $2 / $3)) + (float)(int)$4, {}), {})", sum,
                                        lowest, highest),
                   .arguments = std::move(arguments)}};
  return to.add_generated(node, "requantize", kernel, std::move(leaves), {}, out);
}

}  // namespace

Status lower_matmul_integer(Lowering& to, const Node& node) {
  TENON_TRY_ASSIGN(const MatMulDesc desc, read_matmul(node, input_shapes(to.graph(), node)));
  const Operands operands{node.input(desc.a), node.input(desc.b), node.input(desc.a_zero_point),
                          node.input(desc.b_zero_point)};
  TENON_TRY(check_operands(to, node, operands));
  if (node.op_type == "MatMulInteger") {
    TENON_TRY_ASSIGN(const TensorId out, to.make(node.outputs[0]));
    return add_matrices(to, node, desc, operands, out, nullptr);
  }
  const Scales scales{node.input(desc.a_scale), node.input(desc.b_scale), node.input(desc.y_scale),
                      node.input(desc.y_zero_point)};
  for (ValueId id : {scales.a, scales.b, scales.y, scales.zero})
    TENON_INVALID_IF(id == kNoValue, "{} lacks an input.", to.label(node));
  const Shape& y = desc.y;
  if (y.rank() >= 1 && !has_few_products(y, desc.k) && can_quantize(to, node, scales, y[y.rank() - 1])) {
    TENON_TRY_ASSIGN(const TensorId out, to.make(node.outputs[0]));
    return add_matrices(to, node, desc, operands, out, &scales);
  }
  TENON_TRY_ASSIGN(const TensorId sums, to.program().add_tensor(DataType::kInt32, y));
  TENON_TRY(add_matrices(to, node, desc, operands, sums, nullptr));
  return requantize(to, node, sums, {scales.a, scales.b, scales.y, scales.zero}, kNoValue, y.rank() - 1);
}

Status lower_conv_integer(Lowering& to, const Node& node) {
  const bool scaled = node.op_type == "QLinearConv";
  const Operands operands = scaled ? Operands{node.inputs[0], node.inputs[3], node.input(2), node.input(5)}
                                   : Operands{node.inputs[0], node.inputs[1], node.input(2), node.input(3)};
  TENON_TRY(check_operands(to, node, operands));
  if (!scaled) return add_conv(to, node, operands, true, nullptr).status();
  TENON_INVALID_IF(node.inputs.size() < 8, "{} lacks an input.", to.label(node));
  const Scales scales{node.inputs[1], node.inputs[4], node.inputs[6], node.inputs[7], node.input(8)};
  const Shape w = to.value(operands.b).shape();
  if (w.rank() > 0 && can_quantize(to, node, scales, w[0])) return add_conv(to, node, operands, true, &scales).status();
  TENON_TRY_ASSIGN(const TensorId sums, add_conv(to, node, operands, false, nullptr));
  return requantize(to, node, sums, {scales.a, scales.b, scales.y, scales.zero}, scales.bias, 1);
}

// Least and greatest number of parts of x, then of all, then the elements.
Status lower_dynamic_quantize(Lowering& to, const Node& node) {
  TENON_INVALID_IF(node.outputs.size() != 3, "{} has {} outputs.", to.label(node), node.outputs.size());
  TENON_TRY_ASSIGN(const TensorId from, to.any(node.inputs[0]));
  const DeviceTensor x = to.program().tensor(from);
  TENON_UNSUPPORTED_IF(x.type != DataType::kFloat || to.type_of(node.outputs[0]) != DataType::kUint8,
                       "{} quantises {}.", to.label(node), data_type_name(x.type));
  constexpr int64_t kPart = 4096, kMostParts = 1024;
  const int64_t count = x.shape.element_count();
  const int64_t parts = std::clamp<int64_t>((count + kPart - 1) / kPart, 1, kMostParts);
  TENON_TRY_ASSIGN(const TensorId limits, to.program().add_tensor(DataType::kFloat, Shape{2, parts}));
  const LimitsParams params{.count = count, .parts = parts};
  const char* const header = "ep/cuda/ops/quantize/dynamic_quantize.cuh";
  TENON_TRY(to.add_kernel(node, "limits",
                          TemplateKernel{.header = header,
                                         .instance = template_instance("part_limits", is_wide(to, {}, {from})),
                                         .params = kernel_params(params),
                                         .shape = {.grid_x = static_cast<unsigned>(parts), .block_x = kMapThreads}},
                          {from}, {limits}));
  TENON_TRY_ASSIGN(const TensorId out, to.make(node.outputs[0], x.layout));
  TENON_TRY_ASSIGN(const TensorId scale, to.make(node.outputs[1]));
  TENON_TRY_ASSIGN(const TensorId zero, to.make(node.outputs[2]));
  TENON_TRY(to.add_kernel(node, "dynamic_scale",
                          TemplateKernel{.header = header,
                                         .instance = template_instance("dynamic_scale", DataType::kUint8),
                                         .params = kernel_params(params),
                                         .shape = {.grid_x = 1, .block_x = kMapThreads}},
                          {limits}, {scale, zero}));
  if (count == 0) return Status();
  TENON_TRY_ASSIGN(std::string expression, quantize_expression(DataType::kUint8, true));
  const std::vector<int64_t> same(x.shape.rank(), 0);
  GeneratedElementwise kernel{.dims = dims_of(x.shape),
                              .type = DataType::kUint8,
                              .strides = to.program().tensor(out).strides(),
                              .leaves = {{.type = x.type, .strides = x.strides()},
                                         {.type = DataType::kFloat, .strides = same},
                                         {.type = DataType::kUint8, .strides = same}},
                              .steps = {{DataType::kUint8, std::move(expression), {0, 1, 2}}}};
  return to.add_generated(node, "quantize", kernel, {from, scale, zero}, {}, out);
}

}  // namespace tenon::cuda
