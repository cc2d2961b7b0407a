#include "runtime/value_tap.h"

#include <algorithm>
#include <cstring>

#include "device/copy.h"
#include "device/memory_space.h"
#include "ep/cpu/ops/reference_types.h"
#include "plan/node_origins.h"
#include "plan/pass_rewriter.h"
#include "plan/regions.h"
#include "plan/views.h"
#include "plan/widened.h"

namespace tenon {

namespace {

constexpr int64_t kBlock = 8;  // of Layout::kBlocked8

// The elements of a value with blocked channels in the plain order.
Result<Tensor> unblocked(const Tensor& value, const Shape& shape) {
  TENON_TRY_ASSIGN(Tensor plain, Tensor::allocate(value.type(), shape));
  const size_t size = data_type_size(value.type());
  const int64_t channels = shape[1], blocks = (channels + kBlock - 1) / kBlock;
  int64_t area = 1;
  for (int axis = 2; axis < shape.rank(); ++axis) area *= shape[axis];
  auto* to = plain.data_as<std::byte>();
  for (int64_t n = 0; n < shape[0]; ++n) {
    for (int64_t c = 0; c < channels; ++c) {
      const int64_t block = (n * blocks + c / kBlock) * area * kBlock + c % kBlock;
      for (int64_t i = 0; i < area; ++i, to += size)
        std::memcpy(to, value.data_as<std::byte>() + static_cast<size_t>(block + i * kBlock) * size, size);
    }
  }
  return plain;
}

// The values as the model would have stored them, in 16 bits.
Result<Tensor> rounded(const Tensor& value, DataType type) {
  TENON_TRY_ASSIGN(Tensor made, Tensor::allocate(type, value.shape()));
  const float* const from = value.data_as<float>();
  const int64_t count = value.shape().element_count();
  if (type == DataType::kFloat16) {
    std::transform(from, from + count, made.data_as<uint16_t>(), &cpu::ref::Float16::encode);
  } else {
    std::transform(from, from + count, made.data_as<uint16_t>(), &cpu::ref::BFloat16::encode);
  }
  return made;
}

Shape blocked_shape(const Shape& shape) {
  Shape padded = shape;
  padded[1] = (padded[1] + kBlock - 1) / kBlock * kBlock;
  return padded;
}

}  // namespace

bool ValueObserver::wants(std::string_view /*body*/, std::string_view /*name*/) { return true; }

std::string body_path(const std::string& body, const Graph& graph, const Node& node) {
  std::string own = node.name;
  for (ValueId id : node.outputs)
    if (own.empty() && id != kNoValue) own = graph.value(id).name;
  return body.empty() ? own : body + "/" + own;
}

Status ValueTap::Part::begin() {
  const Graph& graph = plan_.graph;
  views_.assign(plan_.steps.size() + 1, {});
  // By value: how many steps have to be over.
  PerValue<size_t> ready(graph.values.size(), 0);
  for (StepId s : plan_.steps.ids()) {
    for (ValueId id : graph.nodes[plan_.steps[s].node].outputs)
      if (id != kNoValue) ready[id] = s.index() + 1;
  }
  for (size_t v = 0; v < plan_.views.size(); ++v) {
    const Node& node = graph.nodes[plan_.views[v].node];
    size_t last = 0;
    for (ValueId id : node.inputs)
      if (id != kNoValue) last = std::max(last, ready[id]);
    for (ValueId id : node.outputs)
      if (id != kNoValue) ready[id] = last;
    views_[last].push_back(v);
  }
  if (outer_part_ == nullptr)
    for (const Value& value : tap_.folded_) TENON_TRY(give_folded(value));
  for (ValueId id : graph.values.ids()) {
    const Location location{StorageKind::kConstant, id.value(), 0};
    if (graph.value(id).constant) TENON_TRY(give(id, location, {nullptr, "constant"}));
  }
  return views_after(0);
}

void ValueTap::Part::enter(const Node& node) {
  outer_ = tap_.body_;
  tap_.body_ = body_path(outer_, plan_.graph, node);
}

void ValueTap::Part::leave() { tap_.body_ = outer_; }

Status ValueTap::Part::after(StepId id) {
  const PlanStep& step = plan_.steps[id];
  if (step.executor != kCpuEp) TENON_TRY(device_->streams->synchronize());
  // A copied value has been given by the step that made it.
  if (!step.copy) {
    const Node& node = plan_.graph.nodes[step.node];
    for (size_t i = 0; i < node.outputs.size(); ++i)
      if (node.outputs[i] != kNoValue) TENON_TRY(give(node.outputs[i], step.outputs[i], {&node, step.kernel->name()}));
  }
  return views_after(id.index() + 1);
}

Status ValueTap::Part::views_after(size_t ready) {
  for (size_t v : views_[ready]) {
    const PlanView& view = plan_.views[v];
    const Node& node = plan_.graph.nodes[view.node];
    for (size_t i = 0; i < node.outputs.size(); ++i)
      if (node.outputs[i] != kNoValue) TENON_TRY(give(node.outputs[i], view.outputs[i], {&node, "view"}));
  }
  return {};
}

Status ValueTap::Part::give_folded(const Value& value) {
  const Constant& constant = *value.constant;
  if (data_type_bits(constant.type) == 0 || holds_addresses(constant.type)) return {};
  if (!tap_.observer_.wants(tap_.body_, value.name)) return {};
  int64_t& given = tap_.given_[{tap_.body_, value.name}];
  if (given++ > 0) return {};
  NodeValue made{.name = value.name, .body = tap_.body_, .kernel = "constant"};
  const std::shared_ptr<const std::byte> data = constant.data.read();
  TENON_TRY_ASSIGN(made.tensor, Tensor::allocate(constant.type, constant.shape));
  if (constant.size_bytes > 0) std::memcpy(made.tensor.data(), data.get(), constant.size_bytes);
  return tap_.observer_.value(made);
}

Status ValueTap::Part::give(ValueId id, const Location& location, const Maker& maker) {
  const Value& value = plan_.graph.value(id);
  const bool constant = location.kind == StorageKind::kConstant && maker.node == nullptr;
  if (value.name.empty() || !value.is_tensor || location.kind == StorageKind::kAbsent) return {};
  const DataType type = value.constant ? value.constant->type : value.type;
  const std::optional<ModelValue> model = model_value_of(value);
  const std::string name(model ? model->name : std::string_view(value.name));
  if (data_type_bits(type) == 0 || holds_addresses(type) || !tap_.observer_.wants(tap_.body_, name)) return {};
  int64_t& given = tap_.given_[{tap_.body_, name}];
  // A constant is there in every plan of a run, and a value of the model's own graph is made once.
  if (given > 0 && (constant || tap_.body_.empty())) return {};
  Shape shape;
  if (value.constant) {
    shape = value.constant->shape;
  } else if (value.fully_known()) {
    shape = value.shape();
  } else if (location.kind == StorageKind::kDynamic) {
    const DynamicValue& dynamic = state_.dynamic_value(DynamicId(location.index));
    if (dynamic.type == DataType::kUndefined) return {};
    shape = dynamic.shape;
  } else {
    return {};
  }
  NodeValue made{.name = name, .body = tap_.body_, .occurrence = given, .kernel = std::string(maker.kernel)};
  if (maker.node != nullptr) {
    const bool is_one = is_region(*maker.node) && region_body(*maker.node).nodes.size() == 1;
    const Node& shown = is_one ? region_body(*maker.node).nodes[NodeId(0)] : *maker.node;
    made.node = shown.name;
    made.op_type = shown.domain.empty() ? shown.op_type : shown.domain + "." + shown.op_type;
    made.model_nodes = model_nodes_of(shown);
    if (is_region(*maker.node)) {
      const Graph& body = region_body(*maker.node);
      if (!is_one) made.op_type = "region";
      made.model_nodes.clear();
      for (const Node& node : body.nodes) made.model_nodes.push_back(node.name.empty() ? node.label(body) : node.name);
    }
  }
  const bool blocked = value.layout == Layout::kBlocked8 && !value.constant;
  TENON_TRY_ASSIGN(made.tensor, on_host(type, blocked ? blocked_shape(shape) : shape, location));
  if (blocked) {
    TENON_TRY_ASSIGN(made.tensor, unblocked(made.tensor, shape));
  }
  if (model) {
    TENON_TRY_ASSIGN(made.tensor, rounded(made.tensor, model->type));
  }
  ++given;
  return tap_.observer_.value(made);
}

Result<Tensor> ValueTap::Part::on_host(DataType type, const Shape& shape, const Location& location) const {
  TENON_TRY_ASSIGN(const size_t bytes, tensor_size_bytes(type, shape));
  void* const data = state_.address(location);
  // No bytes, and so no memory.
  if (bytes == 0 || data == nullptr) return Tensor::allocate(type, shape);
  MemorySpace space = device_ != nullptr ? device_->spaces->at(space_of(location)) : MemorySpace();
  if (device_ == nullptr || host_can_address(space)) return Tensor::view(type, shape, data, bytes);
  space.alignment = 0;
  TENON_TRY_ASSIGN(const Tensor from, Tensor::view(type, shape, data, bytes, nullptr, space));
  TENON_TRY_ASSIGN(Tensor to, Tensor::allocate(type, shape));
  DataTransfer* const transfer = device_->spaces->transfer(device_->spaces->mover(space, to.space()));
  TENON_TRY(copy_tensor(to, from, CopyReason::kNotCompatible, "", nullptr, transfer));
  return to;
}

SpaceId ValueTap::Part::space_of(const Location& location) const {
  const size_t index = location.place();
  switch (location.kind) {
    case StorageKind::kArena:
      return SpaceId(location.index);
    case StorageKind::kInput:
      return plan_.inputs[index].space;
    case StorageKind::kOutput:
      for (const PlanOutput& output : plan_.outputs)
        if (output.slot == OutputSlot(location.index)) return output.space;
      return kHostSpace;
    case StorageKind::kDynamic:
      return plan_.dynamic_spaces[DynamicId(location.index)];
    case StorageKind::kHandle:
      return plan_.handle_buffers[index].space;
    default:
      return kHostSpace;
  }
}

}  // namespace tenon
