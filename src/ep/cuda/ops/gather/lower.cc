// Operators that choose elements by computed indices, or by their coordinates alone.
#include <algorithm>
#include <utility>

#include "ep/cuda/compute/loops.h"
#include "ep/cuda/compute/map_template.h"
#include "ep/cuda/ops/gather/gather_params.h"
#include "ops/gather.h"
#include "ops/generate.h"
#include "ops/order.h"

namespace tenon::cuda {

namespace {

constexpr const char* kHeader = "ep/cuda/ops/gather/gather.cuh";

}  // namespace

Status lower_gather_elements(Lowering& to, const Node& node) {
  TENON_TRY_ASSIGN(const TensorId data, to.plain(node.inputs[0]));
  TENON_TRY_ASSIGN(const TensorId index, to.plain(node.inputs[1]));
  const DeviceTensor from = to.program().tensor(data), by = to.program().tensor(index);
  TENON_TRY_ASSIGN(const int axis, read_elements_axis(node, from.shape, by.shape));
  TENON_TRY_ASSIGN(const TensorId out, to.make(node.outputs[0]));
  TENON_INVALID_IF(from.shape.element_count() == 0 && by.shape.element_count() != 0, "{} takes elements of nothing.",
                   to.label(node));
  if (by.shape.element_count() == 0) return Status();
  std::vector<int64_t> strides = from.strides();
  GatherElementsParams params{
      .count = by.shape.element_count(), .limit = from.shape[axis], .step = std::exchange(strides[axis], 0)};
  Loops loops = join_dims(dims_of(by.shape), {by.strides(), strides}, 0);
  loops.strides.erase(loops.strides.begin());
  TENON_TRY_ASSIGN(params.loops, loop_params<1>(loops));
  const std::string instance =
      template_instance("gather_elements", from.type, by.type, std::max<size_t>(loops.dims.size(), 1),
                        is_wide(to, {}, {data, index, out}));
  return add_map(to, node, "gather_elements", kHeader, instance, params, params.count, {data, index}, {out});
}

Status lower_gather_nd(Lowering& to, const Node& node) {
  TENON_TRY_ASSIGN(const TensorId data, to.plain(node.inputs[0]));
  TENON_TRY_ASSIGN(const TensorId index, to.plain(node.inputs[1]));
  const DeviceTensor from = to.program().tensor(data), by = to.program().tensor(index);
  TENON_TRY_ASSIGN(const GatherNdDesc desc, read_gather_nd(node, from.shape, by.shape));
  TENON_TRY_ASSIGN(const TensorId out, to.make(node.outputs[0]));
  const int64_t count = to.program().tensor(out).shape.element_count();
  TENON_INVALID_IF(from.shape.element_count() == 0 && count != 0, "{} takes elements of nothing.", to.label(node));
  if (count == 0) return Status();
  TENON_UNSUPPORTED_IF(desc.width > kMostRank, "{} has tuples of {} indices; kernels take {}.", to.label(node),
                       desc.width, kMostRank);
  GatherNdParams params{.count = count, .slice = make_divisor(desc.slice), .tuples = make_divisor(desc.tuples)};
  for (int64_t d = 0; d < desc.width; ++d) params.limits[d] = from.shape[desc.batch_rank + static_cast<int>(d)];
  const std::string instance =
      template_instance("gather_nd", from.type, by.type, desc.width, is_wide(to, {}, {data, index, out}));
  return add_map(to, node, "gather_nd", kHeader, instance, params, count, {data, index}, {out});
}

Status lower_one_hot(Lowering& to, const Node& node) {
  TENON_TRY_ASSIGN(const TensorId index, to.plain(node.inputs[0]));
  TENON_TRY_ASSIGN(const TensorId values, to.plain(node.inputs[2]));
  TENON_TRY_ASSIGN(const TensorId out, to.make(node.outputs[0]));
  const DeviceTensor made = to.program().tensor(out);
  TENON_TRY_ASSIGN(const int axis, read_one_hot_axis(node, made.shape.rank() - 1));
  TENON_INVALID_IF(to.program().tensor(values).shape.element_count() != 2, "{} has values of {}.", to.label(node),
                   to.program().tensor(values).shape.to_string());
  const int64_t count = made.shape.element_count();
  if (count == 0) return Status();
  const AxisSpan span = axis_span(made.shape, axis);
  const OneHotParams params{.count = count, .inner = make_divisor(span.inner), .size = make_divisor(span.length)};
  const std::string instance =
      template_instance("one_hot", made.type, to.program().tensor(index).type, is_wide(to, {}, {out}));
  return add_map(to, node, "one_hot", kHeader, instance, params, count, {index, values}, {out});
}

Status lower_trilu(Lowering& to, const Node& node) {
  TENON_TRY_ASSIGN(const TensorId from, to.plain(node.inputs[0]));
  TENON_TRY_ASSIGN(const TensorId out, to.make(node.outputs[0]));
  const DeviceTensor tensor = to.program().tensor(from);
  const int rank = tensor.shape.rank();
  TENON_INVALID_IF(rank < 2, "{} takes a triangle of {}.", to.label(node), tensor.shape.to_string());
  TensorId diagonal = kNoTensor;
  if (node.input(1) != kNoValue) {
    TENON_TRY_ASSIGN(diagonal, to.plain(node.inputs[1]));
    TENON_INVALID_IF(to.program().tensor(diagonal).shape.element_count() != 1, "{} has {} for its diagonal.",
                     to.label(node), to.program().tensor(diagonal).shape.to_string());
  }
  const int64_t count = tensor.shape.element_count();
  if (count == 0) return Status();
  const DiagonalParams params{
      .count = count, .columns = make_divisor(tensor.shape[rank - 1]), .rows = make_divisor(tensor.shape[rank - 2])};
  const std::string instance = template_instance("trilu", tensor.type, read_trilu_upper(node), is_wide(to, {}, {from}));
  return add_map(to, node, "trilu", kHeader, instance, params, count, {from, diagonal}, {out});
}

Status lower_eye_like(Lowering& to, const Node& node) {
  TENON_TRY_ASSIGN(const TensorId out, to.make(node.outputs[0]));
  const DeviceTensor tensor = to.program().tensor(out);
  TENON_INVALID_IF(tensor.shape.rank() != 2, "{} makes {}.", to.label(node), tensor.shape.to_string());
  const int64_t count = tensor.shape.element_count();
  if (count == 0) return Status();
  const DiagonalParams params{
      .count = count, .columns = make_divisor(tensor.shape[1]), .diagonal = read_eye_diagonal(node)};
  const std::string instance = template_instance("eye_like", tensor.type, is_wide(to, {}, {out}));
  return add_map(to, node, "eye_like", kHeader, instance, params, count, {}, {out});
}

Status lower_reverse_sequence(Lowering& to, const Node& node) {
  TENON_TRY_ASSIGN(const TensorId from, to.plain(node.inputs[0]));
  TENON_TRY_ASSIGN(const TensorId lengths, to.plain(node.inputs[1]));
  TENON_TRY_ASSIGN(const TensorId out, to.make(node.outputs[0]));
  const DeviceTensor tensor = to.program().tensor(from);
  const Shape& shape = tensor.shape;
  TENON_TRY_ASSIGN(const ReverseSequenceDesc desc,
                   read_reverse_sequence(node, shape, to.program().tensor(lengths).shape));
  const int64_t count = shape.element_count();
  if (count == 0) return Status();
  // Time and batch are the first two dimensions, either way round.
  const ReverseSequenceParams params{.count = count,
                                     .inner = make_divisor(count / (shape[0] * shape[1])),
                                     .second = make_divisor(shape[1]),
                                     .time = shape[desc.time_axis]};
  const std::string instance =
      template_instance("reverse_sequence", tensor.type, desc.time_axis == 0, is_wide(to, {}, {from}));
  return add_map(to, node, "reverse_sequence", kHeader, instance, params, count, {from, lengths}, {out});
}

}  // namespace tenon::cuda
