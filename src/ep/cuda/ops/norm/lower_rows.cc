// Attention, layer normalisation, softmax, pooling and reductions.
#include <algorithm>
#include <array>
#include <cmath>

#include "base/format.h"
#include "ep/cuda/compute/generated_op.h"
#include "ep/cuda/compute/lowering_maps.h"
#include "ep/cuda/ops/norm/row_ops.h"
#include "ops/attention.h"
#include "ops/norm.h"
#include "ops/reduce.h"
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

// What a layer normalisation writes of its rows. As halves: a row has a norm of at most the root of its length before
// it is scaled.
Status make_normal(Lowering& to, const Node& node, DataType type, int64_t columns, LayerNormOp::Tensors* tensors) {
  const ValueId y = node.outputs[0];
  const Shape& shape = to.value(y).shape();
  if (type == DataType::kFloat && columns % 8 == 0 && columns <= LayerNormOp::kMostOfHalves &&
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
    TENON_TRY_ASSIGN(const Lowering::Halves halves,
                     to.make_halves(y, {norm + largest_bias, norm + std::sqrt(bias_squares)}));
    tensors->y_parts = halves.tensor;
    tensors->y_sections = halves.sections;
    tensors->y_shift = halves.shift;
    if (halves.sections != 0 && to.only_halves(y)) return Status();
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
  // What is made of V's rows is not larger than they are.
  Lowering::Halves halves;
  if (const Lowering::Bound* v = to.bound(node.inputs[desc.v]);
      v != nullptr && type == DataType::kFloat && y[2] % 8 == 0) {
    TENON_TRY_ASSIGN(halves,
                     to.make_halves(node.outputs[0], {v->largest, v->largest * std::sqrt(static_cast<double>(y[2]))}));
    tensors.y_parts = halves.tensor;
    params.parts_factor = std::ldexp(1.0F, halves.shift);
    params.sections = halves.sections;
  }
  if (halves.sections == 0 || !to.only_halves(node.outputs[0])) {
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
  // Constants, one for each place of a row.
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

Status lower_reduction(Lowering& to, const Node& node) {
  const Shape x = to.value(node.inputs[0]).shape();
  const DataType type = to.type_of(node.inputs[0]);
  const bool arg = node.op_type.starts_with("Arg");
  const bool global = node.op_type.starts_with("Global");
  TENON_UNSUPPORTED_IF(global && x.rank() < 3, "{} pools rank {}.", to.label(node), x.rank());
  AxisSet reduced;
  bool last = false;
  if (arg) {
    TENON_TRY_ASSIGN(const ArgReduceDesc desc, read_arg_reduce(node, x));
    reduced.set(static_cast<size_t>(desc.axis));
    last = desc.select_last_index;
  } else if (global) {
    for (int i = 2; i < x.rank(); ++i) reduced.set(static_cast<size_t>(i));
  } else {
    ReduceDesc desc = read_reduce(node);
    if (node.input(1) != kNoValue) {
      TENON_TRY_ASSIGN(desc.axes, to.integers(node, 1));
    }
    TENON_TRY_ASSIGN(reduced, reduced_axes(desc.axes, desc.noop_with_empty_axes, x.rank()));
    // Without axes nothing is reduced, but each element is still squared, or its sign taken.
    const bool changes = node.op_type == "ReduceL1" || node.op_type == "ReduceL2" ||
                         node.op_type == "ReduceSumSquare" || node.op_type.starts_with("ReduceLog");
    if (desc.axes.empty() && desc.noop_with_empty_axes && !changes) {
      TENON_TRY_ASSIGN(const TensorId same, to.any(node.inputs[0]));
      to.alias(node.outputs[0], same);
      return Status();
    }
  }
  // The mean of whole images has a kernel of its own where their channels are last.
  const bool images =
      x.rank() == 4 && !reduced[0] && !reduced[1] && reduced[2] && reduced[3] && to.is_channels_last(node.inputs[0]);
  if (images && node.op_type == "ReduceMean" && is_kernel_float(type) && x.element_count() != 0) {
    TENON_TRY_ASSIGN(const TensorId from, to.channels_last(node.inputs[0]));
    TENON_TRY_ASSIGN(const TensorId out, to.make(node.outputs[0]));
    TENON_TRY(check_sizes(to, node, {x[0], x.element_count() / x[0]}));
    PoolParams params{.in_h = narrow(x[2]), .in_w = narrow(x[3]), .channels = narrow(x[1]), .average = 1};
    to.program().add_op(std::make_unique<PoolOp>(node.name, type, params, narrow(x[0]), true, from, out));
    return Status();
  }
  constexpr std::array<std::pair<std::string_view, const char*>, 14> kKinds = {{{"ReduceMean", "mean"},
                                                                                {"GlobalMaxPool", "max"},
                                                                                {"GlobalAveragePool", "mean"},
                                                                                {"ReduceSum", "sum"},
                                                                                {"ReduceMax", "max"},
                                                                                {"ReduceMin", "min"},
                                                                                {"ReduceProd", "prod"},
                                                                                {"ReduceLogSum", "log_sum"},
                                                                                {"ReduceLogSumExp", "log_sum_exp"},
                                                                                {"ReduceL1", "l1"},
                                                                                {"ReduceL2", "l2"},
                                                                                {"ReduceSumSquare", "sum_square"},
                                                                                {"ArgMax", "argmax"},
                                                                                {"ArgMin", "argmin"}}};
  TENON_TRY_ASSIGN(const TensorId from, to.any(node.inputs[0]));
  const std::vector<int64_t> strides = to.program().tensor(from).strides();
  GeneratedReduction kernel{.type = type, .out_type = to.type_of(node.outputs[0]), .last = last};
  for (const auto& [name, kind] : kKinds)
    if (name == node.op_type) kernel.kind = kind;
  for (int i = 0; i < x.rank(); ++i) {
    const auto at = static_cast<size_t>(i);
    (reduced.test(at) ? kernel.reduced : kernel.dims).push_back(x[i]);
    (reduced.test(at) ? kernel.reduced_strides : kernel.strides).push_back(strides[at]);
  }
  int64_t stride = 1;
  kernel.out_strides.resize(kernel.dims.size());
  for (size_t i = kernel.dims.size(); i-- > 0; stride *= kernel.dims[i]) kernel.out_strides[i] = stride;
  TENON_TRY_ASSIGN(const TensorId out, to.make(node.outputs[0]));
  if (to.program().tensor(out).shape.element_count() == 0) return Status();
  return add_reduction(to, node, node.op_type, kernel, from, out);
}

// The order of all additions follows from the sizes alone, so each run gives the same.
Status add_reduction(Lowering& to, const Node& node, const std::string& what, const GeneratedReduction& kernel,
                     TensorId from, TensorId out) {
  const int64_t parts = reduction_parts(kernel);
  if (parts == 1) {
    TENON_TRY_ASSIGN(GeneratedKernel whole, generate_reduction(kernel));
    return to.add_kernel(node, what, std::move(whole), {from}, out);
  }
  const bool choice = kernel.kind == "argmax" || kernel.kind == "argmin";
  int64_t outputs = 1, count = 1;
  for (int64_t dim : kernel.dims) outputs *= dim;
  for (int64_t dim : kernel.reduced) count *= dim;
  // Parts are as exact as what they are made of is computed.
  const std::string computed = compute_type(kernel.type);
  DataType type = kernel.type;
  if (choice) {
    type = DataType::kInt64;
  } else if (computed == "float") {
    type = DataType::kFloat;
  } else if (computed == "int") {
    type = DataType::kInt32;
  } else if (computed == "unsigned" || computed == "bool") {
    type = DataType::kUint32;
  }
  TENON_TRY_ASSIGN(const TensorId made, to.program().add_tensor(type, Shape{outputs, parts}));
  GeneratedReduction first = kernel;
  first.parts = parts;
  first.out_type = type;
  if (!choice) first.kind = first_reduction(kernel.kind);
  int64_t stride = parts;
  for (size_t d = first.dims.size(); d-- > 0; stride *= first.dims[d]) first.out_strides[d] = stride;
  TENON_TRY_ASSIGN(GeneratedKernel pieces, generate_reduction(first));
  TENON_TRY(to.add_kernel(node, what + " of parts", std::move(pieces), {from}, made));
  GeneratedReduction second = kernel;
  std::vector<TensorId> reads = {from, made};
  if (choice) {
    second.candidates = parts;
  } else {
    second = {.dims = {outputs},
              .strides = {parts},
              .out_strides = {1},
              .reduced = {parts},
              .reduced_strides = {1},
              .type = type,
              .out_type = kernel.out_type,
              .kind = second_reduction(kernel.kind),
              .count = count};
    reads = {made};
  }
  TENON_TRY_ASSIGN(GeneratedKernel joined, generate_reduction(second));
  return to.add_kernel(node, what, std::move(joined), std::move(reads), out);
}

}  // namespace tenon::cuda
