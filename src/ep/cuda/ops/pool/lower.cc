#include "ep/cuda/compute/loops.h"
#include "ep/cuda/compute/map_template.h"
#include "ep/cuda/ops/narrow_sizes.h"
#include "ep/cuda/ops/pool/general_pool_params.h"
#include "ep/cuda/ops/pool/op.h"

namespace tenon::cuda {

namespace {

PoolMode mode_of(const PoolDesc& pool) {
  if (pool.kind == PoolDesc::Kind::kMax) return PoolMode::kMax;
  if (pool.kind == PoolDesc::Kind::kAverage) return PoolMode::kAverage;
  return pool.p == 1 ? PoolMode::kNorm1 : pool.p == 2 ? PoolMode::kNorm2 : PoolMode::kNorm;
}

// Pools of any rank and type, and those that say where their elements came from.
Status lower_general_pool(Lowering& to, const Node& node, const PoolDesc& pool) {
  TENON_TRY_ASSIGN(const TensorId from, to.plain(node.inputs[0]));
  const DataType type = to.program().tensor(from).type;
  const PoolMode mode = mode_of(pool);
  TENON_UNSUPPORTED_IF(type == DataType::kBool, "{} pools truth values.", to.label(node));
  const std::string compute = compute_type(type);
  TENON_UNSUPPORTED_IF(compute.empty() || (mode != PoolMode::kMax && compute != "float" && compute != "double"),
                       "{} pools {}.", to.label(node), data_type_name(type));
  TENON_TRY_ASSIGN(const TensorId out, to.make(node.outputs[0]));
  TensorId indices = kNoTensor;
  if (node.outputs.size() > 1 && node.outputs[1] != kNoValue) {
    TENON_UNSUPPORTED_IF(mode != PoolMode::kMax, "{} gives indices.", to.label(node));
    TENON_TRY_ASSIGN(indices, to.make(node.outputs[1]));
  }
  const std::vector<int64_t> dims = dims_of(to.value(node.outputs[0]).shape());
  const GeneralPoolParams params{.map = map_params(dims),
                                 .window = window_params(pool.window),
                                 .channels = pool.channels,
                                 .order = pool.p,
                                 .inverse_order = 1.0 / pool.p,
                                 .count_include_pad = pool.count_include_pad ? 1 : 0,
                                 .column_major = pool.column_major ? 1 : 0};
  return add_map(to, node, "pool", "ep/cuda/ops/pool/general_pool.cuh",
                 template_instance("general_pool", type, TemplateEnum{"tenon::cuda::PoolMode", static_cast<int>(mode)},
                                   is_wide(to, dims, {from, out}), kernel_arguments(pool.window)),
                 params, params.map.count, {from}, {out, indices});
}

}  // namespace

Status lower_pool(Lowering& to, const Node& node) {
  const DataType type = to.type_of(node.inputs[0]);
  const Shape x = to.value(node.inputs[0]).shape(), y = to.value(node.outputs[0]).shape();
  TENON_TRY_ASSIGN(const PoolDesc pool, read_pool(node, x));
  for (const WindowAxis& axis : pool.window.axes)
    TENON_UNSUPPORTED_IF(pool.count_include_pad && axis.reach() > axis.in + axis.pad_begin + axis.pad_end,
                         "{} counts padding in a window larger than its input.", to.label(node));
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
