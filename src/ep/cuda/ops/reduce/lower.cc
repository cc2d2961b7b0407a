// The Reduce operators, ArgMax, ArgMin and global pools.
#include <array>
#include <string_view>
#include <utility>

#include "ep/cuda/compute/kernel_library.h"
#include "ep/cuda/ops/narrow_sizes.h"
#include "ep/cuda/ops/pool/op.h"
#include "ep/cuda/ops/reduce/reduce.h"
#include "ops/reduce.h"

namespace tenon::cuda {

namespace {

constexpr auto kKinds = std::to_array<std::pair<std::string_view, ReduceKind>>({
    {"ReduceMean", ReduceKind::kMean},
    {"GlobalMaxPool", ReduceKind::kMax},
    {"GlobalAveragePool", ReduceKind::kMean},
    {"ReduceSum", ReduceKind::kSum},
    {"ReduceMax", ReduceKind::kMax},
    {"ReduceMin", ReduceKind::kMin},
    {"ReduceProd", ReduceKind::kProd},
    {"ReduceLogSum", ReduceKind::kLogSum},
    {"ReduceLogSumExp", ReduceKind::kLogSumExp},
    {"ReduceL1", ReduceKind::kL1},
    {"ReduceL2", ReduceKind::kL2},
    {"ReduceSumSquare", ReduceKind::kSumSquare},
    {"ArgMax", ReduceKind::kArgMax},
    {"ArgMin", ReduceKind::kArgMin},
});

}  // namespace

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
    reduced.set(desc.axis);
    last = desc.select_last_index;
  } else if (global) {
    for (int i = 2; i < x.rank(); ++i) reduced.set(i);
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
  if (images && node.op_type == "ReduceMean" && !kernel_type(type).empty() && x.element_count() != 0) {
    TENON_TRY_ASSIGN(const TensorId from, to.channels_last(node.inputs[0]));
    TENON_TRY_ASSIGN(const TensorId out, to.make(node.outputs[0]));
    for (int64_t size : {x[0], x.element_count() / x[0]})
      TENON_UNSUPPORTED_IF(size > INT32_MAX, "{} has {} images or elements of one; its kernel counts {}.",
                           to.label(node), size, INT32_MAX);
    PoolParams params{.in_h = narrow(x[2]), .in_w = narrow(x[3]), .channels = narrow(x[1]), .average = 1};
    to.program().add_op(std::make_unique<PoolOp>(node.name, type, params, narrow(x[0]), true, from, out));
    return Status();
  }
  TENON_TRY_ASSIGN(const TensorId from, to.any(node.inputs[0]));
  const std::vector<int64_t> strides = to.program().tensor(from).strides();
  Reduction reduction{.type = type, .out_type = to.type_of(node.outputs[0]), .last = last};
  for (const auto& [name, kind] : kKinds)
    if (name == node.op_type) reduction.kind = kind;
  for (int i = 0; i < x.rank(); ++i) {
    (reduced.test(i) ? reduction.reduced : reduction.dims).push_back(x[i]);
    (reduced.test(i) ? reduction.reduced_strides : reduction.strides).push_back(strides[i]);
  }
  int64_t stride = 1;
  reduction.out_strides.resize(reduction.dims.size());
  for (size_t i = reduction.dims.size(); i-- > 0; stride *= reduction.dims[i]) reduction.out_strides[i] = stride;
  TENON_TRY_ASSIGN(const TensorId out, to.make(node.outputs[0]));
  if (to.program().tensor(out).shape.element_count() == 0) return Status();
  return add_reduction(to, node, node.op_type, reduction, from, out);
}

}  // namespace tenon::cuda
