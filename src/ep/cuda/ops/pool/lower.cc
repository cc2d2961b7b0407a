// Pools of any rank and type, and those that say where their elements came from.
#include "ep/cuda/compute/loops.h"
#include "ep/cuda/compute/map_template.h"
#include "ep/cuda/ops/pool/general_pool_params.h"

namespace tenon::cuda {

namespace {

PoolMode mode_of(const PoolDesc& pool) {
  if (pool.kind == PoolDesc::Kind::kMax) return PoolMode::kMax;
  if (pool.kind == PoolDesc::Kind::kAverage) return PoolMode::kAverage;
  return pool.p == 1 ? PoolMode::kNorm1 : pool.p == 2 ? PoolMode::kNorm2 : PoolMode::kNorm;
}

}  // namespace

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

}  // namespace tenon::cuda
