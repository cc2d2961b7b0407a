#include "runtime/run_state.h"

#include <algorithm>

#include "base/trace.h"
#include "runtime/memory.h"

namespace tenon {

RunState::RunState(const Plan& plan, ThreadPool& pool)
    : plan_(plan), contexts_(plan.steps.size()), dynamic_(static_cast<size_t>(plan.dynamic_values)) {
  size_t inputs = 0, outputs = 0;
  for (const PlanStep& step : plan.steps) {
    inputs += step.inputs.size();
    outputs += step.outputs.size();
  }
  step_inputs_.resize(inputs);
  step_outputs_.resize(outputs);
  size_t input = 0, output = 0;
  for (size_t i = 0; i < plan.steps.size(); ++i) {
    const PlanStep& step = plan.steps[i];
    StepContext& context = contexts_[i];
    context.inputs = std::span<const void* const>(step_inputs_).subspan(input, step.inputs.size());
    context.outputs = std::span<void* const>(step_outputs_).subspan(output, step.outputs.size());
    context.pool = &pool;
    context.state = this;
    context.step = i;
    input += step.inputs.size();
    output += step.outputs.size();
  }
}

void* RunState::address(const Location& location) const {
  const auto index = static_cast<size_t>(location.index);
  const auto offset = [&](const void* base) -> void* {
    return base == nullptr ? nullptr : static_cast<std::byte*>(const_cast<void*>(base)) + location.offset_bytes;
  };
  switch (location.home) {
    case Home::kConstant:
      return offset(plan_.graph.values[index].constant->data);
    case Home::kInput:
      return offset(inputs_[index]);
    case Home::kOutput:
      return offset(outputs_[index]);
    case Home::kArena:
      return offset(arena_);
    case Home::kDynamic:
      return offset(dynamic_[index].memory.get());
    case Home::kAbsent:
      break;
  }
  return nullptr;
}

void RunState::bind(std::byte* arena, std::span<void* const> inputs, std::span<void* const> outputs) {
  if (resolved_ && arena == arena_ && std::equal(inputs.begin(), inputs.end(), inputs_.begin(), inputs_.end()) &&
      std::equal(outputs.begin(), outputs.end(), outputs_.begin(), outputs_.end())) {
    return;
  }
  arena_ = arena;
  inputs_.assign(inputs.begin(), inputs.end());
  outputs_.assign(outputs.begin(), outputs.end());
  resolve();
  resolved_ = true;
}

void RunState::resolve() {
  size_t input = 0, output = 0;
  for (size_t i = 0; i < plan_.steps.size(); ++i) {
    const PlanStep& step = plan_.steps[i];
    for (const Location& location : step.inputs) step_inputs_[input++] = address(location);
    for (const Location& location : step.outputs) {
      step_outputs_[output++] = location.home == Home::kDynamic ? nullptr : address(location);
    }
    contexts_[i].scratch = static_cast<std::byte*>(address(step.scratch));
  }
}

Status RunState::run_steps(const std::atomic<bool>* cancel) {
  for (size_t i = 0; i < plan_.steps.size(); ++i) {
    if (cancel != nullptr && cancel->load(std::memory_order_relaxed)) [[unlikely]] {
      return cancelled("The run was cancelled before step {} of {}.", i, plan_.steps.size());
    }
    const TraceSpan span("kernel", plan_.steps[i].kernel->name());
    Status status = plan_.steps[i].kernel->run(contexts_[i]);
    if (!status.ok()) [[unlikely]] {
      const Node& node = plan_.graph.nodes[static_cast<size_t>(plan_.steps[i].node)];
      return std::move(status).with_context(format("while running node {}", node.label(plan_.graph)));
    }
    for (size_t o = 0; o < plan_.steps[i].dynamic_outputs.size(); ++o) {
      const int32_t index = plan_.steps[i].dynamic_outputs[o];
      if (index >= 0 && dynamic_[static_cast<size_t>(index)].type == DataType::kUndefined) [[unlikely]] {
        return internal_error("The kernel {} gave no memory to its output {}.", plan_.steps[i].kernel->name(), o);
      }
    }
  }
  return {};
}

Result<void*> RunState::StepContext::allocate_output(size_t index, const Shape& shape) {
  return state->allocate_dynamic(step, index, shape);
}

Result<void*> RunState::allocate_dynamic(size_t step_index, size_t output, const Shape& shape) {
  const PlanStep& step = plan_.steps[step_index];
  const int32_t index = output < step.dynamic_outputs.size() ? step.dynamic_outputs[output] : -1;
  TENON_INVALID_IF(index < 0, "The kernel {} asks for memory for output {}, which has a known size or does not exist.",
                   step.kernel->name(), output);
  DynamicValue& value = dynamic_[static_cast<size_t>(index)];
  const Node& node = plan_.graph.nodes[static_cast<size_t>(step.node)];
  const DataType type = plan_.graph.value(node.outputs[output]).type;
  TENON_TRY_ASSIGN(const size_t bytes, tensor_size_bytes(type, shape));
  if (value.memory == nullptr || value.capacity_bytes < bytes) {
    TENON_TRY_ASSIGN(value.memory, allocate_zeroed(bytes));
    value.capacity_bytes = bytes;
  }
  value.type = type;
  value.shape = shape;
  return static_cast<void*>(value.memory.get());
}

}  // namespace tenon
