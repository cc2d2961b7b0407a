// Attention, layer normalisation, softmax and pooling.
#include <algorithm>
#include <array>
#include <cmath>

#include "base/format.h"
#include "ep/cuda/compute/map_template.h"
#include "ep/cuda/compute/template_op.h"
#include "ep/cuda/ops/norm/row_ops.h"
#include "ops/attention.h"
#include "ops/norm.h"
#include "ops/softmax.h"

namespace tenon::cuda {

namespace {

bool is_kernel_float(DataType type) {
  return type == DataType::kFloat || type == DataType::kFloat16 || type == DataType::kBfloat16;
}

// Sizes that kernels count in 32 bits. check_sizes() has seen them.
int32_t narrow(int64_t value) { return static_cast<int32_t>(value); }

Status check_sizes(const Lowering& to, const Node& node, std::initializer_list<int64_t> sizes) {
  for (int64_t size : sizes)
    TENON_UNSUPPORTED_IF(size > INT32_MAX, "{} has {} rows, columns or pixels; its kernel counts {}.", to.label(node),
                         size, INT32_MAX);
  return Status();
}

// Makes the tensors that a layer normalisation writes. As f16 parts: a row has a norm of at most the root of its length
// before it is scaled.
Status make_normal(Lowering& to, const Node& node, DataType type, int64_t columns, LayerNormOp::Tensors* tensors) {
  const ValueId y = node.outputs[0];
  const Shape& shape = to.value(y).shape();
  if (type == DataType::kFloat && columns % 8 == 0 && columns <= LayerNormOp::kMostSplitColumns &&
      shape[shape.rank() - 1] == columns) {
    const bool internal = node.domain == "tenon";
    const auto floats = [&](size_t input) {
      const ConstantRef& held = to.constant(node.input(input));
      return held != nullptr ? floats_of(*held) : std::vector<float>();
    };
    // Where one is NaN, so is what it makes: bounds are of numbers.
    double largest_scale = 0, largest_bias = 0, bias_squares = 0;
    for (float scale : floats(internal ? 2 : 1)) largest_scale = std::max<double>(largest_scale, std::fabs(scale));
    for (float bias : floats(internal ? 3 : 2)) {
      largest_bias = std::max<double>(largest_bias, std::fabs(bias));
      if (!std::isnan(bias)) bias_squares += double{bias} * bias;
    }
    const double norm = std::sqrt(static_cast<double>(columns)) * largest_scale;
    TENON_TRY_ASSIGN(const Lowering::SplitTensor split,
                     to.make_split_tensor(y, {norm + largest_bias, norm + std::sqrt(bias_squares)}));
    tensors->y_parts = split.tensor;
    tensors->y_terms = split.terms;
    tensors->y_shift = split.shift;
    if (split.terms != 0 && to.only_split(y)) return Status();
  }
  TENON_TRY_ASSIGN(tensors->y, to.make(y));
  return Status();
}

}  // namespace

Status lower_attention(Lowering& to, const Node& node) {
  const DataType type = to.type_of(node.inputs[0]);
  TENON_UNSUPPORTED_IF(!is_kernel_float(type), "{} is computed in {}.", to.label(node), data_type_name(type));
  TENON_TRY_ASSIGN(const AttentionDesc desc, read_attention(node, input_shapes(to.graph(), node)));
  const Shape& y = desc.y;
  AttentionParams params;
  params.heads = narrow(desc.heads);
  params.scale = desc.scale;
  params.guarded = desc.guarded ? 1 : 0;
  params.batch = narrow(desc.batch);
  params.queries = narrow(desc.queries);
  params.keys = narrow(desc.keys);
  params.head_size = narrow(desc.depth);
  params.value_size = narrow(desc.value_depth);
  params.q_row = desc.q_row, params.k_row = desc.k_row, params.v_row = desc.v_row, params.y_row = y[2];
  AttentionOp::Tensors tensors;
  TENON_TRY_ASSIGN(tensors.q, to.plain(node.inputs[desc.q]));
  // K or V, which may lie in the rows of Q.
  const auto operand = [&](size_t input, int64_t offset) -> Result<TensorId> {
    if (input != desc.q) return to.plain(node.inputs[input]);
    return to.program().add_view(tensors.q, type, y, DeviceLayout::kPlain,
                                 static_cast<size_t>(offset) * data_type_size(type));
  };
  TENON_TRY_ASSIGN(tensors.k, operand(desc.k, desc.k_offset));
  TENON_TRY_ASSIGN(tensors.v, operand(desc.v, desc.v_offset));
  params.q_batch = params.q_row * params.queries;
  params.k_batch = params.k_row * params.keys;
  params.v_batch = params.v_row * params.keys;
  if (desc.mask != kNoInput) {
    TENON_TRY_ASSIGN(tensors.mask, to.plain(node.inputs[desc.mask]));
    params.mask_batch = desc.mask_strides[0];
    params.mask_head = desc.mask_strides[1];
    params.mask_query = desc.mask_strides[2];
    params.mask_key = desc.mask_strides[3];
  }
  // A weighted mean of V's rows is not larger than they are.
  Lowering::SplitTensor split;
  if (const Lowering::Bound* v = to.bound(node.inputs[desc.v]);
      v != nullptr && type == DataType::kFloat && y[2] % 8 == 0) {
    TENON_TRY_ASSIGN(
        split, to.make_split_tensor(node.outputs[0], {v->largest, v->largest * std::sqrt(static_cast<double>(y[2]))}));
    tensors.y_parts = split.tensor;
    params.parts_factor = std::ldexp(1.0F, split.shift);
    params.terms = split.terms;
  }
  if (split.terms == 0 || !to.only_split(node.outputs[0])) {
    TENON_TRY_ASSIGN(tensors.y, to.make(node.outputs[0]));
  }
  if (y.element_count() == 0) return Status();
  TENON_TRY(check_sizes(to, node, {y[0], y[1], desc.keys, y[2], desc.q_row}));
  to.program().add_op(std::make_unique<AttentionOp>(node.name, type, params, tensors));
  return Status();
}

Status lower_layer_norm(Lowering& to, const Node& node) {
  const bool internal = node.domain == "tenon";
  const DataType type = to.type_of(node.inputs[0]);
  const Shape x = to.value(node.inputs[0]).shape();
  TENON_TRY_ASSIGN(const LayerNormDesc desc, read_layer_norm(node, x));
  const ValueId skip = node.input(desc.skip), scale = node.input(desc.scale), bias = node.input(desc.bias);
  const int64_t columns = desc.columns;
  // Constants, one for each column.
  const auto whole = [&](ValueId id) {
    return id == kNoValue || (to.constant(id) != nullptr && to.value(id).shape().element_count() == columns);
  };
  const bool further =
      std::any_of(node.outputs.begin() + 1, node.outputs.end(), [](ValueId id) { return id != kNoValue; });
  constexpr int64_t kManyColumns = 4096;  // more than a block of the row kernel keeps
  if (!desc.subtract_mean || (!internal && further) || !whole(scale) || !whole(bias) || type == DataType::kDouble ||
      columns > kManyColumns)
    return lower_general_layer_norm(to, node, desc);
  TENON_UNSUPPORTED_IF(!is_kernel_float(type), "{} is computed in {}.", to.label(node), data_type_name(type));
  LayerNormOp::Tensors tensors;
  TENON_TRY_ASSIGN(tensors.x, to.plain(node.inputs[0]));
  if (skip != kNoValue) {
    TENON_TRY_ASSIGN(tensors.skip, to.plain(skip));
  }
  TENON_TRY_ASSIGN(tensors.scale, to.float_constant(scale));
  if (bias != kNoValue) {
    TENON_TRY_ASSIGN(tensors.bias, to.float_constant(bias));
  }
  TENON_TRY(make_normal(to, node, type, columns, &tensors));
  if (internal && node.outputs.size() > 1 && node.outputs[1] != kNoValue) {
    TENON_TRY_ASSIGN(tensors.sum, to.make(node.outputs[1]));
  }
  if (x.element_count() == 0) return Status();
  TENON_TRY(check_sizes(to, node, {x.element_count() / columns, columns}));
  to.program().add_op(std::make_unique<LayerNormOp>(node.name, type, narrow(x.element_count() / columns),
                                                    narrow(columns), desc.epsilon, tensors));
  return Status();
}

Status lower_softmax(Lowering& to, const Node& node) {
  const DataType type = to.type_of(node.inputs[0]);
  const Shape x = to.value(node.inputs[0]).shape();
  TENON_UNSUPPORTED_IF(!is_kernel_float(type) || x.rank() == 0, "{} is computed in {}.", to.label(node),
                       data_type_name(type));
  TENON_TRY_ASSIGN(const SoftmaxDesc desc, read_softmax(node, x));
  // Over channels: their rows lie together where channels are last.
  const bool channels = !desc.flat && desc.axis == 1 && x.rank() >= 3 && to.is_channels_last(node.inputs[0]);
  const DeviceLayout layout = channels ? DeviceLayout::kChannelsLast : DeviceLayout::kPlain;
  const int64_t columns = desc.length;
  // The row kernel has a block of 128 threads for a row, and keeps nothing of it.
  constexpr int64_t kFewColumns = 256, kManyColumns = 4096;
  const bool rows = desc.inner == 1;
  if (!channels && (!rows || columns < kFewColumns || columns > kManyColumns))
    return lower_general_softmax(to, node, desc);
  TENON_TRY_ASSIGN(const TensorId from, to.in_layout(node.inputs[0], layout));
  TENON_TRY_ASSIGN(const TensorId out, to.make(node.outputs[0], layout));
  if (x.element_count() == 0) return Status();
  TENON_TRY(check_sizes(to, node, {x.element_count() / columns, columns}));
  to.program().add_op(std::make_unique<SoftmaxOp>(node.name, type, narrow(x.element_count() / columns), narrow(columns),
                                                  desc.kind == SoftmaxDesc::Kind::kLogSoftmax, desc.guarded, from,
                                                  out));
  return Status();
}

Status lower_pool(Lowering& to, const Node& node) {
  const DataType type = to.type_of(node.inputs[0]);
  const Shape x = to.value(node.inputs[0]).shape(), y = to.value(node.outputs[0]).shape();
  TENON_TRY_ASSIGN(const PoolDesc pool, read_pool(node, x));
  const bool indices = node.outputs.size() > 1 && node.outputs[1] != kNoValue;
  if (!is_kernel_float(type) || pool.spatial() > 2 || indices || pool.kind == PoolDesc::Kind::kLp)
    return pool.global ? lower_reduction(to, node) : lower_general_pool(to, node, pool);
  // Of plain images a mean is that of rows.
  if (pool.global && !to.is_channels_last(node.inputs[0])) return lower_reduction(to, node);
  const WindowAxis h = pool.spatial() == 2 ? pool.window.axes.front() : WindowAxis{}, w = pool.window.axes.back();
  PoolParams params{.in_h = narrow(h.in), .in_w = narrow(w.in), .channels = narrow(pool.channels)};
  params.average = pool.kind == PoolDesc::Kind::kMax ? 0 : 1;
  params.count_padding = pool.count_include_pad ? 1 : 0;
  params.out_h = narrow(h.out), params.out_w = narrow(w.out);
  if (!pool.global) {
    params.kernel_h = narrow(h.kernel), params.kernel_w = narrow(w.kernel);
    params.stride_h = narrow(h.stride), params.stride_w = narrow(w.stride);
    params.dilation_h = narrow(h.dilation), params.dilation_w = narrow(w.dilation);
    params.pad_h = narrow(h.pad_begin), params.pad_w = narrow(w.pad_begin);
    params.pad_end_h = narrow(h.pad_end), params.pad_end_w = narrow(w.pad_end);
  }
  TENON_TRY_ASSIGN(const TensorId from, to.channels_last(node.inputs[0]));
  TENON_TRY_ASSIGN(const TensorId out, to.make(node.outputs[0], DeviceLayout::kChannelsLast));
  if (y.element_count() == 0) return Status();
  const int64_t image = x.element_count() / std::max<int64_t>(x[0], 1);
  TENON_TRY(check_sizes(to, node, {x[0], image, y.element_count() / y[1]}));
  to.program().add_op(std::make_unique<PoolOp>(node.name, type, params, narrow(x[0]), pool.global, from, out));
  return Status();
}

}  // namespace tenon::cuda
