// What only names elements anew, joins or parts tensors.
#include <algorithm>

#include "base/format.h"
#include "ep/cuda/compute/codegen.h"
#include "ep/cuda/compute/lowering.h"

namespace tenon::cuda {

namespace {

Result<int> axis_of(Lowering& to, const Node& node, int64_t fallback, int rank) {
  const int64_t axis = node.int_or("axis", fallback), wrapped = axis < 0 ? axis + rank : axis;
  TENON_INVALID_IF(wrapped < 0 || wrapped >= rank, "{} has axis {} of rank {}.", to.label(node), axis, rank);
  return static_cast<int>(wrapped);
}

}  // namespace

Status lower_reshape(Lowering& to, const Node& node) {
  for (size_t i = 1; i < node.outputs.size(); ++i)
    TENON_UNSUPPORTED_IF(node.outputs[i] != kNoValue, "{} has a second output.", to.label(node));
  // Dropout trains where its third input says so.
  if (const ValueId training = node.op_type == "Dropout" ? node.input(2) : kNoValue; training != kNoValue) {
    const ConstantRef& held = to.constant(training);
    TENON_UNSUPPORTED_IF(held == nullptr || held->size_bytes != 1 || held->data[0] != std::byte{0},
                         "{} may drop elements.", to.label(node));
  }
  TENON_UNSUPPORTED_IF(!to.value(node.outputs[0]).fully_known(), "The shape of {} is only known at run time.",
                       to.label(node));
  const Shape shape = to.value(node.outputs[0]).shape();
  TENON_TRY_ASSIGN(const TensorId whole, to.any(node.inputs[0]));
  const bool same_shape = to.program().tensor(whole).shape == shape;
  TensorId from = whole;
  if (!same_shape) {
    TENON_TRY_ASSIGN(from, to.plain(node.inputs[0]));
  }
  const DeviceTensor tensor = to.program().tensor(from);
  TENON_INVALID_IF(tensor.shape.element_count() != shape.element_count(), "{} makes {} of {}.", to.label(node),
                   shape.to_string(), tensor.shape.to_string());
  to.alias(node.outputs[0], to.program().add_view(from, tensor.type, shape, tensor.layout));
  return Status();
}

Status lower_concat(Lowering& to, const Node& node) {
  const Shape shape = to.value(node.outputs[0]).shape();
  TENON_TRY_ASSIGN(const int axis, axis_of(to, node, 0, shape.rank()));
  const bool channels_last = shape.rank() >= 3 && std::any_of(node.inputs.begin(), node.inputs.end(), [&](ValueId id) {
                               return to.constant(id) == nullptr && to.is_channels_last(id);
                             });
  const DeviceLayout layout = channels_last ? DeviceLayout::kChannelsLast : DeviceLayout::kPlain;
  std::vector<TensorId> parts;
  for (ValueId id : node.inputs) {
    TENON_TRY_ASSIGN(const TensorId part, to.any(id));
    parts.push_back(part);
  }
  TENON_TRY_ASSIGN(const TensorId out, to.make(node.outputs[0], layout));
  const DeviceTensor whole = to.program().tensor(out);
  const std::vector<int64_t> strides = whole.strides();
  int64_t at = 0;
  for (TensorId part : parts) {
    const DeviceTensor tensor = to.program().tensor(part);
    const GeneratedElementwise kernel{.dims = {tensor.shape.begin(), tensor.shape.end()},
                                      .type = tensor.type,
                                      .strides = strides,
                                      .offset = at * strides[static_cast<size_t>(axis)],
                                      .leaves = {{.type = tensor.type, .strides = tensor.strides()}}};
    at += tensor.shape[axis];
    if (tensor.shape.element_count() != 0) TENON_TRY(to.add_generated(node, "concat", kernel, {part}, {}, out));
  }
  return Status();
}

Status lower_split(Lowering& to, const Node& node) {
  TENON_TRY_ASSIGN(const TensorId from, to.any(node.inputs[0]));
  const DeviceTensor tensor = to.program().tensor(from);
  TENON_TRY_ASSIGN(const int axis, axis_of(to, node, 0, tensor.shape.rank()));
  const std::vector<int64_t> strides = tensor.strides();
  int64_t at = 0;
  for (ValueId id : node.outputs) {
    if (id == kNoValue) return unsupported("{} lacks an output.", to.label(node));
    const Shape shape = to.value(id).shape();
    TENON_TRY_ASSIGN(const TensorId out, to.make(id, tensor.layout));
    const GeneratedElementwise kernel{
        .dims = {shape.begin(), shape.end()},
        .type = tensor.type,
        .strides = to.program().tensor(out).strides(),
        .leaves = {{.type = tensor.type, .strides = strides, .offset = at * strides[static_cast<size_t>(axis)]}}};
    at += shape[axis];
    if (shape.element_count() != 0) TENON_TRY(to.add_generated(node, "split", kernel, {from}, {}, out));
  }
  return Status();
}

}  // namespace tenon::cuda
