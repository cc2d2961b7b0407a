#include "ep/cuda/ops/order/topk_op.h"

#include <algorithm>

#include "base/format.h"
#include "ep/cuda/compute/kernel_library.h"
#include "ep/cuda/compute/lowering.h"
#include "ops/attributes.h"
#include "ops/order.h"

namespace tenon::cuda {

namespace {

constexpr unsigned kThreads = 512;

std::string_view kernel_name(DataType type) {
  if (type == DataType::kInt32) return "i32";
  if (type == DataType::kInt64) return "i64";
  return kernel_type(type);
}

}  // namespace

TopKOp::TopKOp(std::string label, DataType type, const TopKParams& params, int64_t rows, TensorId x, TensorId y,
               TensorId indices)
    : DeviceOp(std::move(label), {x}, present({y, indices})),
      type_(type),
      params_(params),
      rows_(rows),
      y_(y),
      indices_(indices) {}

bool TopKOp::serves(DataType type) { return !kernel_name(type).empty(); }

std::string TopKOp::description(const Program&) const {
  return format("top_k {} {}x{} of {} stride {}{}", data_type_name(type_), rows_, params_.k, params_.count,
                params_.inner, params_.largest != 0 ? "" : " smallest");
}

Status TopKOp::prepare(const PrepareContext& context) {
  TENON_TRY_ASSIGN(function_, context.kernels->find("topk", format("top_k_{}", kernel_name(type_))));
  return Status();
}

Status TopKOp::queue(const QueueContext& context) const {
  TopKParams params = params_;
  params.x = context.addresses.pointer(reads()[0]);
  params.y = context.addresses.pointer(y_);
  params.indices = context.addresses.pointer<int64_t>(indices_);
  void* pointers[] = {&params};
  return queue_kernel(*context.device, function_, {.grid_x = static_cast<unsigned>(rows_), .block_x = kThreads}, 1,
                      context.stream, pointers);
}

// How many a TopK takes has to be known, for there is a most.
Status can_take_top(const Graph& graph, const Node& node) {
  int64_t count = Attributes(node).find_integer("k").value_or(0);
  if (node.input(1) != kNoValue) {
    const ConstantRef& held = graph.value(node.inputs[1]).constant;
    TENON_UNSUPPORTED_IF(held == nullptr, "{} takes a number of elements that is only known at run time.",
                         node.label(graph));
    if (const auto values = tenon::integers_of(held.get()); values && values->size() == 1) count = values->front();
  }
  TENON_UNSUPPORTED_IF(count > kMaxTopK, "{} takes {} elements of a row.", node.label(graph), count);
  return Status();
}

Status lower_top_k(Lowering& to, const Node& node) {
  const DataType type = to.type_of(node.inputs[0]);
  TENON_UNSUPPORTED_IF(!TopKOp::serves(type), "{} sorts {}.", to.label(node), data_type_name(type));
  TENON_INVALID_IF(node.outputs.size() < 2, "{} lacks an output.", to.label(node));
  const Shape x = to.value(node.inputs[0]).shape();
  const ValueId first = node.outputs[0] != kNoValue ? node.outputs[0] : node.outputs[1];
  const Shape y = to.value(first).shape();
  TENON_TRY_ASSIGN(const TopKDesc desc, read_top_k(node, x));
  const int at = desc.span.axis;
  TENON_INVALID_IF(y.rank() != x.rank(), "{} makes {} of {}.", to.label(node), y.to_string(), x.to_string());
  TENON_UNSUPPORTED_IF(x[at] > INT32_MAX || x.element_count() / std::max<int64_t>(x[at], 1) > INT32_MAX, "{} sorts {}.",
                       to.label(node), x.to_string());
  TENON_UNSUPPORTED_IF(y[at] > kMaxTopK, "{} takes {} elements of a row.", to.label(node), y[at]);
  TopKParams params{
      .count = static_cast<int32_t>(x[at]), .k = static_cast<int32_t>(y[at]), .largest = desc.largest ? 1 : 0};
  params.inner = desc.span.inner;
  TENON_TRY_ASSIGN(const TensorId from, to.plain(node.inputs[0]));
  TensorId values = kNoTensor, indices = kNoTensor;
  if (node.outputs[0] != kNoValue) {
    TENON_TRY_ASSIGN(values, to.make(node.outputs[0]));
  }
  if (node.outputs[1] != kNoValue) {
    TENON_TRY_ASSIGN(indices, to.make(node.outputs[1]));
  }
  if (y.element_count() == 0) return Status();
  to.program().add_op(
      std::make_unique<TopKOp>(node.name, type, params, y.element_count() / y[at], from, values, indices));
  return Status();
}

}  // namespace tenon::cuda
