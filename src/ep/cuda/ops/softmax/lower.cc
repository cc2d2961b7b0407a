#include "base/format.h"
#include "ep/cuda/compute/map_template.h"
#include "ep/cuda/ops/narrow_sizes.h"
#include "ep/cuda/ops/norm/layout.h"
#include "ep/cuda/ops/softmax/op.h"
#include "ops/softmax.h"

namespace tenon::cuda {

namespace {

// Softmax and LogSoftmax over dimensions that lie anywhere: x as [outer, columns, inner].
Status lower_general_softmax(Lowering& to, const Node& node, const SoftmaxDesc& desc) {
  TENON_TRY_ASSIGN(const TensorId from, to.plain(node.inputs[0]));
  TENON_TRY_ASSIGN(const TensorId out, to.make(node.outputs[0]));
  const DeviceTensor tensor = to.program().tensor(from);
  if (tensor.shape.element_count() == 0) return Status();
  const Groups groups = split_groups({desc.outer, desc.length, desc.inner}, {false, true, false}, {0, 0, 0});
  const Layout layout = lay_out(groups, tensor.type);
  TENON_TRY_ASSIGN(NormKernel kernel, norm_kernel(layout, tensor.shape.element_count()));
  kernel.params.guarded = desc.guarded ? 1 : 0;
  return to.add_kernel(node, "softmax",
                       {.header = "ep/cuda/ops/softmax/softmax.cuh",
                        .instance = template_instance("softmax", tensor.type,
                                                      desc.kind == SoftmaxDesc::Kind::kLogSoftmax, kernel.arguments),
                        .params = kernel_params(kernel.params),
                        .shape = kernel.shape,
                        .in_place = {}},
                       {from}, {out});
}

}  // namespace

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

}  // namespace tenon::cuda
