#include "runtime/run_state.h"

#include <algorithm>
#include <atomic>
#include <optional>
#include <utility>

#include "base/trace.h"
#include "device/copy.h"
#include "plan/node_origins.h"
#include "plan/regions.h"
#include "plan/views.h"
#include "runtime/memory.h"
#include "runtime/value_tap.h"

namespace tenon {

namespace {

// A bound tensor may be less aligned than its space's own memory; what it is used for was decided when it was planned.
MemorySpace unaligned(MemorySpace space) {
  space.alignment = 0;
  return space;
}

// One name stands for the reference kernels of all operators.
std::string kernel_name(std::string_view name, const std::string& op_type) {
  return name == "ref" ? "ref " + op_type : std::string(name);
}

}  // namespace

RunState::RunState(const Plan& plan, ThreadPool& pool)
    : plan_(plan), contexts_(plan.steps.size()), dynamic_(plan.dynamic_spaces.size()) {
  held.resize(plan.spaces.size());
  arenas_.resize(plan.spaces.size());
  size_t inputs = 0, outputs = 0;
  for (const PlanStep& step : plan.steps) {
    inputs += step.inputs.size();
    outputs += step.outputs.size();
  }
  step_inputs_.resize(inputs);
  step_outputs_.resize(outputs);
  size_t input = 0, output = 0;
  for (StepId id : plan.steps.ids()) {
    const PlanStep& step = plan.steps[id];
    StepContext& context = contexts_[id];
    context.inputs = std::span<const void* const>(step_inputs_).subspan(input, step.inputs.size());
    context.outputs = std::span<void* const>(step_outputs_).subspan(output, step.outputs.size());
    context.pool = &pool;
    context.input_spaces = step.input_spaces;
    context.output_spaces = step.output_spaces;
    context.state = this;
    context.step = id;
    input += step.inputs.size();
    output += step.outputs.size();
  }
}

void* RunState::address(const Location& location) const {
  const size_t index = location.place();
  const auto offset = [&](const void* base) -> void* {
    return base == nullptr ? nullptr : static_cast<std::byte*>(const_cast<void*>(base)) + location.offset_bytes;
  };
  switch (location.kind) {
    case StorageKind::kConstant:
      return offset(plan_.graph.value(ValueId(location.index)).constant->data);
    case StorageKind::kInput:
      return offset(inputs_[index]);
    case StorageKind::kOutput:
      return offset(outputs_[index]);
    case StorageKind::kArena:
      return offset(arena(SpaceId(location.index)));
    case StorageKind::kDynamic:
      return offset(dynamic_[DynamicId(location.index)].memory.get());
    case StorageKind::kPlacedConstant:
      return offset(plan_.placed_constants[index].data());
    case StorageKind::kHandle:
      return handles_[index].get();
    case StorageKind::kAbsent:
      break;
  }
  return nullptr;
}

Status RunState::hold_handles(const SpaceTable& spaces) {
  if (handles_.size() == plan_.handle_buffers.size()) return {};
  std::vector<std::shared_ptr<std::byte>> held;
  for (const HandleBuffer& block : plan_.handle_buffers) {
    TENON_TRY_ASSIGN(auto memory, allocate_device(*spaces.allocators[block.space], block.size_bytes));
    held.push_back(std::move(memory));
  }
  handles_ = std::move(held);
  resolved_ = false;
  return {};
}

void RunState::drop_handles() { handles_.clear(); }

void RunState::bind(std::span<void* const> inputs, std::span<void* const> outputs) {
  bool moved = false;
  for (SpaceId space : held.ids()) {
    moved = moved || arenas_[space] != held[space].memory.get();
    arenas_[space] = held[space].memory.get();
  }
  if (resolved_ && !moved && std::equal(inputs.begin(), inputs.end(), inputs_.begin(), inputs_.end()) &&
      std::equal(outputs.begin(), outputs.end(), outputs_.begin(), outputs_.end())) {
    return;
  }
  inputs_.assign(inputs.begin(), inputs.end());
  outputs_.assign(outputs.begin(), outputs.end());
  resolve();
  resolved_ = true;
}

void RunState::resolve() {
  size_t input = 0, output = 0;
  for (StepId id : plan_.steps.ids()) {
    const PlanStep& step = plan_.steps[id];
    for (size_t i = 0; i < step.inputs.size(); ++i) {
      const Location& location = step.inputs[i];
      const bool packed = location.kind == StorageKind::kConstant && step.kernel != nullptr && !step.kernel->reads(i);
      step_inputs_[input++] = packed ? nullptr : address(location);
    }
    for (const Location& location : step.outputs) {
      step_outputs_[output++] = location.kind == StorageKind::kDynamic ? nullptr : address(location);
    }
    contexts_[id].scratch = static_cast<std::byte*>(address(step.scratch));
  }
}

Status why_it_ends(const RunInfo& info, const std::string& where) {
  if (info.cancel != nullptr && info.cancel->load(std::memory_order_relaxed))
    return cancelled("The run was cancelled {}.", where);
  return timed_out("The time for the run (tenon.timeout_ms, RunOptions::run_timeout_ns) was over {}.", where);
}

Status RunState::run_steps(const RunInfo& info, const DeviceRun* device) {
  spaces_ = device != nullptr ? device->spaces : nullptr;
  for (DynamicValue& value : dynamic_) value.type = DataType::kUndefined;
  NodeObserver* const observer = NodeObserver::current();
  if (observer != nullptr || trace_enabled()) [[unlikely]]
    return run_steps_observed(info, device, observer);
  for (StepId id : plan_.steps.ids()) {
    if (is_to_end(info)) [[unlikely]]
      return end_before(id, info);
    Status status;
    if (device != nullptr) status = wait_before(plan_.steps[id], *device);
    if (status.ok()) [[likely]]
      status = run_step(id, info, device);
    if (!status.ok()) [[unlikely]]
      return name_node(id, std::move(status));
    if (!plan_.steps[id].dynamic_outputs.empty()) TENON_TRY(check_dynamic(id));
  }
  return {};
}

Status RunState::run_steps_observed(const RunInfo& info, const DeviceRun* device, NodeObserver* observer) {
  std::optional<ValueTap::Part> tapped;
  if (observer != nullptr && observer->tap() != nullptr) {
    tapped.emplace(*observer->tap(), plan_, *this, device);
    TENON_TRY(tapped->begin());
  }
  static std::atomic<uint64_t> traced_runs{0};
  traced_run_ = trace_file_enabled() ? traced_runs.fetch_add(1, std::memory_order_relaxed) + 1 : 0;
  for (StepId id : plan_.steps.ids()) {
    if (is_to_end(info)) return end_before(id, info);
    Status status = run_observed(id, info, device, observer);
    if (!status.ok()) return name_node(id, std::move(status));
    TENON_TRY(check_dynamic(id));
  }
  return {};
}

Status RunState::end_before(StepId id, const RunInfo& info) const {
  return why_it_ends(info, format("before step {} of {}", id, plan_.steps.size()));
}

Status RunState::name_node(StepId id, Status status) const {
  const Node& node = plan_.graph.nodes[plan_.steps[id].node];
  return std::move(status).with_context(format("while running node {}", node.label(plan_.graph)));
}

Status RunState::check_dynamic(StepId id) const {
  const PlanStep& step = plan_.steps[id];
  for (size_t o = 0; o < step.dynamic_outputs.size(); ++o) {
    const DynamicId made = step.dynamic_outputs[o];
    if (made.valid() && dynamic_[made].type == DataType::kUndefined)
      return internal_error("The kernel {} gave no memory to its output {}.", step.kernel->name(), o);
  }
  return {};
}

Status RunState::run_observed(StepId id, const RunInfo& info, const DeviceRun* device, NodeObserver* observer) {
  const PlanStep& step = plan_.steps[id];
  const std::string label = plan_.graph.nodes[step.node].label(plan_.graph);
  int64_t begin_ns = 0, end_ns = 0;
  bool by_plugin = false;
  ValueTap* const tap = observer != nullptr ? observer->tap() : nullptr;
  Status status;
  {
    const TraceSubject::Scope subject({.session = TraceSubject::current().session,
                                       .step = id.value(),
                                       .stream = step.executor.value(),
                                       .node = label});
    if (device != nullptr) TENON_TRY(wait_before(step, *device));
    begin_ns = monotonic_ns();
    NodeObserver::set_by_plugin(false);
    if (tap != nullptr) tap->part()->enter(plan_.graph.nodes[step.node]);
    status = run_step(id, info, device);
    end_ns = monotonic_ns();
    if (tap != nullptr) tap->part()->leave();
    by_plugin = NodeObserver::by_plugin();
    NodeObserver::set_by_plugin(false);
  }
  if (traced_run_ != 0) write_arrows(id, begin_ns, end_ns);
  if (tap != nullptr && status.ok()) status = tap->part()->after(id);
  if (step.copy) return status;  // which is a span of its own
  NodeRun run = describe(id, by_plugin);
  run.begin_ns = begin_ns;
  run.end_ns = end_ns;
  if (trace_enabled()) {
    const std::string arguments = node_arguments(run);
    write_trace_span({"kernel", label, begin_ns, end_ns, arguments});
  }
  if (observer != nullptr) observer->ran(run);
  return status;
}

NodeRun RunState::describe(StepId id, bool by_plugin) const {
  const PlanStep& step = plan_.steps[id];
  const Node& node = plan_.graph.nodes[step.node];
  // A region that holds one operator of another EP is named as that operator.
  const bool is_one = is_region(node) && region_body(node).nodes.size() == 1;
  const Node& shown = is_one ? region_body(node).nodes[NodeId(0)] : node;
  NodeRun run{.name = shown.name,
              .op_type = is_region(shown) ? shown.name : shown.op_type,
              .kernel = kernel_name(step.kernel->name(), shown.op_type),
              .ep = by_plugin ? std::string_view(plan_.ep_names[step.ep]) : "CPUExecutionProvider",
              .index = step.node.value(),
              .step = id.value(),
              .stream = step.executor.value(),
              .by_plugin = by_plugin};
  run.model_nodes = model_nodes_of(node);
  const auto describe = [&](std::span<const ValueId> ids, std::span<const Location> locations) {
    std::vector<NodeRun::Tensor> tensors;
    for (size_t i = 0; i < ids.size() && i < locations.size(); ++i) {
      if (ids[i] == kNoValue) continue;
      const Value& value = plan_.graph.value(ids[i]);
      const TensorSpec spec = spec_of(value);
      NodeRun::Tensor& tensor = tensors.emplace_back(NodeRun::Tensor{spec.type, spec.shape, value.constant != nullptr});
      if (locations[i].kind != StorageKind::kDynamic) continue;
      const DynamicValue& made = dynamic_value(DynamicId(locations[i].index));
      tensor = {made.type, made.shape, false};
    }
    return tensors;
  };
  run.inputs = describe(node.inputs, step.inputs);
  run.outputs = describe(node.outputs, step.outputs);
  return run;
}

void RunState::write_arrows(StepId id, int64_t begin_ns, int64_t end_ns) const {
  const PlanStep& step = plan_.steps[id];
  const auto name = [this](EpId stream, PointId point) {
    return format("run {}, point {} of stream {}", traced_run_, point, stream.value());
  };
  for (const StepWait& wait : step.waits) write_trace_arrow(false, name(wait.stream, wait.point), begin_ns);
  if (step.notify.valid())
    write_trace_arrow(true, name(step.executor, step.notify), begin_ns + (end_ns - begin_ns) / 2);
}

Status RunState::run_step(StepId id, const RunInfo& info, const DeviceRun* device) {
  const PlanStep& step = plan_.steps[id];
  StepContext& context = contexts_[id];
  if (device == nullptr) {
    context.run = &info;
    Status status = step.kernel->run(context);
    context.run = nullptr;
    return status;
  }
  if (step.executor != kCpuEp) device->streams->mark_used(step.executor);
  if (step.copy) {
    TENON_TRY(run_copy(id, *device));
  } else {
    context.stream = step.executor != kCpuEp ? device->streams->stream(step.executor) : nullptr;
    context.run = &info;
    Status status = step.kernel->run(context);
    context.stream = nullptr;
    context.run = nullptr;
    TENON_TRY(std::move(status));
  }
  return step.notify.valid() ? device->streams->notify(step.executor, step.notify) : Status();
}

Status RunState::wait_before(const PlanStep& step, const DeviceRun& device) {
  for (const StepWait& wait : step.waits) {
    TENON_TRY(step.executor == kCpuEp || wait.on_host
                  ? device.streams->wait_on_host(wait.stream, wait.point)
                  : device.streams->wait_on_device(wait.stream, wait.point, step.executor));
  }
  return {};
}

Status RunState::run_copy(StepId id, const DeviceRun& device) {
  const PlanStep& step = plan_.steps[id];
  const StepCopy& copy = *step.copy;
  const size_t bytes = copy.spec.size_bytes();
  TENON_TRY_ASSIGN(const Tensor source, Tensor::view(copy.spec.type, copy.spec.shape, address(step.inputs[0]), bytes,
                                                     nullptr, unaligned(device.spaces->at(copy.source))));
  TENON_TRY_ASSIGN(const Tensor target, Tensor::view(copy.spec.type, copy.spec.shape, address(step.outputs[0]), bytes,
                                                     nullptr, unaligned(device.spaces->at(copy.target))));
  DataTransfer* transfer = device.spaces->transfer(copy.mover);
  DeviceStream* stream = step.executor != kCpuEp ? device.streams->stream(step.executor) : nullptr;
  return copy_tensor(target, source, copy.reason, copy.what, device.ledger, transfer, stream);
}

std::shared_ptr<std::byte> RunState::take_dynamic(DynamicId id) {
  DynamicValue& value = dynamic_[id];
  value.capacity_bytes = 0;
  resolved_ = false;
  return std::move(value.memory);
}

Result<void*> RunState::StepContext::allocate_output(size_t index, const Shape& shape) {
  return state->allocate_dynamic(step, index, shape);
}

bool RunState::StepContext::adopt_output(size_t index, const Shape& shape, std::shared_ptr<std::byte>& memory,
                                         size_t& capacity_bytes) {
  return state->adopt_dynamic(step, index, shape, memory, capacity_bytes);
}

bool RunState::adopt_dynamic(StepId id, size_t output, const Shape& shape, std::shared_ptr<std::byte>& memory,
                             size_t& capacity_bytes) {
  const PlanStep& step = plan_.steps[id];
  const DynamicId made = output < step.dynamic_outputs.size() ? step.dynamic_outputs[output] : DynamicId();
  if (!made.valid() || plan_.dynamic_spaces[made] != kHostSpace) return false;
  DynamicValue& value = dynamic_[made];
  const Node& node = plan_.graph.nodes[step.node];
  const DataType type = plan_.graph.value(node.outputs[output]).type;
  const Result<size_t> bytes = tensor_size_bytes(type, shape);
  if (!bytes.ok() || *bytes > capacity_bytes) return false;
  std::swap(value.memory, memory);
  std::swap(value.capacity_bytes, capacity_bytes);
  value.type = type;
  value.shape = shape;
  return true;
}

Result<void*> RunState::allocate_dynamic(StepId id, size_t output, const Shape& shape) {
  const PlanStep& step = plan_.steps[id];
  const DynamicId made = output < step.dynamic_outputs.size() ? step.dynamic_outputs[output] : DynamicId();
  TENON_INVALID_IF(!made.valid(),
                   "The kernel {} asks for memory for output {}, which has a known size or does not exist.",
                   step.kernel->name(), output);
  DynamicValue& value = dynamic_[made];
  const Node& node = plan_.graph.nodes[step.node];
  const DataType type = plan_.graph.value(node.outputs[output]).type;
  TENON_TRY_ASSIGN(const size_t bytes, tensor_size_bytes(type, shape));
  if (value.memory == nullptr || value.capacity_bytes < bytes) {
    const SpaceId space = plan_.dynamic_spaces[made];
    DeviceAllocator* allocator = space != kHostSpace && spaces_ != nullptr ? spaces_->allocators[space] : nullptr;
    Result<std::shared_ptr<std::byte>> memory =
        allocator != nullptr ? allocate_device(*allocator, bytes) : allocate_zeroed(bytes);
    if (!memory.ok())
      return std::move(memory).status().with_context(format("for output {} of node {}, a {} tensor of shape {}", output,
                                                            node.label(plan_.graph), data_type_name(type),
                                                            shape.to_string()));
    value.memory = *std::move(memory);
    value.capacity_bytes = bytes;
  }
  value.type = type;
  value.shape = shape;
  return static_cast<void*>(value.memory.get());
}

}  // namespace tenon
