#include "runtime/runner.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "device/copy.h"
#include "runtime/memory.h"

namespace tenon {

namespace {

bool ranges_overlap(const void* a, size_t a_bytes, const void* b, size_t b_bytes) {
  const auto x = reinterpret_cast<uintptr_t>(a);
  const auto y = reinterpret_cast<uintptr_t>(b);
  return a_bytes > 0 && b_bytes > 0 && x < y + b_bytes && y < x + a_bytes;
}

}  // namespace

// A run state and an arena, given back at the end of the scope.
struct Runner::Lease {
  Lease(Runner& runner, PlanRuntime& plan_runtime) : session(runner.session_), runtime(plan_runtime) {}
  Lease(const Lease&) = delete;
  Lease& operator=(const Lease&) = delete;
  ~Lease() {
    session.arenas().release(std::move(arena));
    if (state == nullptr) return;
    auto idle = runtime.idle_states.lock();
    idle->push_back(std::move(state));
  }

  // Prefers the state that `hint` points to: its pointers are most likely right.
  Status take(const RunState* hint) {
    {
      auto idle = runtime.idle_states.lock();
      if (!idle->empty()) {
        auto best = std::find_if(idle->begin(), idle->end(), [&](const auto& one) { return one.get() == hint; });
        if (best == idle->end()) best = std::prev(idle->end());
        state = std::move(*best);
        if (best != std::prev(idle->end())) *best = std::move(idle->back());
        idle->pop_back();
      }
    }
    if (state == nullptr) state = std::make_unique<RunState>(*runtime.plan, session.pool());
    TENON_TRY_ASSIGN(arena, session.arenas().acquire(runtime.plan->arena_bytes, state->arena()));
    return {};
  }

  struct Redirect {
    size_t output;  // of plan.outputs
    std::shared_ptr<std::byte> memory;
  };

  SessionImpl& session;
  PlanRuntime& runtime;
  std::unique_ptr<RunState> state;
  Arena arena;
  std::vector<Redirect> redirects;  // outputs that are written elsewhere first
};

Status Runner::prepare(const PlanRuntime& runtime, std::span<void* const> inputs) {
  const Plan& plan = *runtime.plan;
  for (const PlanOutput& output : plan.outputs) {
    if (output.spec.dynamic) continue;
    TENON_TRY(binding_.prepare_output(static_cast<size_t>(output.slot), output.spec.type, output.spec.shape));
  }
  TENON_TRY(check_outputs_apart(plan));
  return check_copies(plan, inputs);
}

Status Runner::check_outputs_apart(const Plan& plan) const {
  for (const PlanOutput& output : plan.outputs) {
    const auto slot = static_cast<size_t>(output.slot);
    if (!binding_.outputs[slot].ready) continue;
    const Tensor& mine = binding_.outputs[slot].result;
    for (size_t other = 0; other < binding_.outputs.size(); ++other) {
      if (other == slot || !binding_.outputs[other].ready) continue;
      const Tensor& theirs = binding_.outputs[other].result;
      TENON_INVALID_IF(ranges_overlap(mine.data(), mine.size_bytes(), theirs.data(), theirs.size_bytes()),
                       "The tensors bound to outputs \"{}\" and \"{}\" overlap in memory.",
                       session_.outputs()[slot].name, session_.outputs()[other].name);
    }
  }
  return {};
}

const PlanInput* Runner::overlapped_input(const Plan& plan, const PlanOutput& output,
                                          std::span<void* const> inputs) const {
  const void* target = binding_.output_addresses[static_cast<size_t>(output.slot)];
  const size_t target_bytes = output.spec.size_bytes();
  for (size_t i = 0; i < plan.inputs.size(); ++i) {
    const PlanInput& input = plan.inputs[i];
    // An output that is only copied to at the end is written after all steps.
    if (input.last_read == kNever || input.last_read < output.first_write) continue;
    if (!ranges_overlap(inputs[i], input.spec.size_bytes(), target, target_bytes)) continue;
    const bool same = inputs[i] == target && input.spec.size_bytes() == target_bytes;
    if (same && output.overlap_safe.first == static_cast<int32_t>(i)) continue;
    return &input;
  }
  return nullptr;
}

Status Runner::check_copies(const Plan& plan, std::span<void* const> inputs) const {
  const bool strict = session_.options().disallow_copies;
  for (const PlanCopy& copy : plan.copies) {
    const auto slot = static_cast<size_t>(copy.output);
    const bool in_place =
        copy.source.home == Home::kInput && binding_.outputs[slot].ready &&
        static_cast<std::byte*>(inputs[static_cast<size_t>(copy.source.index)]) + copy.source.offset_bytes ==
            binding_.output_addresses[slot];
    if (strict && !in_place) {
      return invalid_argument("Output \"{}\" would have to be copied ({}), and tenon.disallow_copies is set.",
                              session_.outputs()[slot].name, copy_reason_name(copy.reason));
    }
    if (in_place) continue;
    for (size_t i = 0; i < plan.inputs.size(); ++i) {
      const PlanInput& input = plan.inputs[i];
      if (input.last_read != kAtEnd || !binding_.outputs[slot].ready) continue;
      const Tensor& target = binding_.outputs[slot].result;
      TENON_INVALID_IF(
          ranges_overlap(inputs[i], input.spec.size_bytes(), target.data(), target.size_bytes()),
          "The tensor bound to output \"{}\" overlaps input \"{}\", which is still needed when the output is copied.",
          session_.outputs()[slot].name, input.name);
    }
  }
  for (const PlanOutput& output : plan.outputs) {
    if (!strict || output.spec.dynamic || output.first_write == kAtEnd) continue;
    if (const PlanInput* input = overlapped_input(plan, output, inputs)) {
      return invalid_argument(
          "The tensor bound to output \"{}\" overlaps input \"{}\", which is read after the output is written, so it "
          "would have to be copied ({}), and tenon.disallow_copies is set.",
          output.name, input->name, copy_reason_name(CopyReason::kOverlap));
    }
  }
  return {};
}

Status Runner::redirect_overlaps(const Plan& plan, std::span<void* const> inputs, Lease& lease) {
  for (size_t i = 0; i < plan.outputs.size(); ++i) {
    const PlanOutput& output = plan.outputs[i];
    if (output.spec.dynamic || output.first_write == kAtEnd) continue;
    if (overlapped_input(plan, output, inputs) == nullptr) continue;
    TENON_TRY_ASSIGN(std::shared_ptr<std::byte> memory, allocate_zeroed(output.spec.size_bytes()));
    binding_.output_addresses[static_cast<size_t>(output.slot)] = memory.get();
    lease.redirects.push_back({i, std::move(memory)});
  }
  return {};
}

Status Runner::run(PlanRuntime& runtime, std::span<void* const> inputs, const std::atomic<bool>* cancel) {
  const Plan& plan = *runtime.plan;
  Lease lease(*this, runtime);
  TENON_TRY(lease.take(binding_.last_state));
  TENON_TRY(redirect_overlaps(plan, inputs, lease));
  binding_.last_state = lease.state.get();
  lease.state->bind(lease.arena.memory.get(), inputs, binding_.output_addresses);
  TENON_TRY(lease.state->run_steps(cancel));
  if (plan.cut) TENON_TRY(run_rest(runtime, *lease.state, cancel));
  return copy_out(plan, lease);
}

Status Runner::copy_to_output(size_t slot, DataType type, const Shape& shape, void* source, CopyReason reason) {
  TENON_TRY_ASSIGN(const size_t bytes, tensor_size_bytes(type, shape));
  TENON_TRY_ASSIGN(const Tensor from, Tensor::view(type, shape, source, bytes));
  return copy_tensor(binding_.outputs[slot].result, from, reason, session_.outputs()[slot].name.c_str(), ledger_);
}

Status Runner::copy_out(const Plan& plan, const Lease& lease) {
  for (const Lease::Redirect& redirect : lease.redirects) {
    const PlanOutput& output = plan.outputs[redirect.output];
    TENON_TRY(copy_to_output(static_cast<size_t>(output.slot), output.spec.type, output.spec.shape,
                             redirect.memory.get(), CopyReason::kOverlap));
  }
  for (const PlanCopy& copy : plan.copies) {
    const auto slot = static_cast<size_t>(copy.output);
    if (copy.source.home == Home::kDynamic) {
      const DynamicValue& value = lease.state->dynamic_value(copy.source.index);
      TENON_TRY(binding_.prepare_output(slot, value.type, value.shape));
      TENON_TRY(check_outputs_apart(plan));
      TENON_TRY(copy_to_output(slot, value.type, value.shape, value.memory.get(), copy.reason));
      continue;
    }
    const Tensor& target = binding_.outputs[slot].result;
    TENON_TRY(copy_to_output(slot, target.type(), target.shape(), lease.state->address(copy.source), copy.reason));
  }
  return {};
}

Result<std::shared_ptr<PlanRuntime>> Runner::find_rest(PlanRuntime& runtime, const RunState& state) {
  const PlanCut& cut = *runtime.plan->cut;
  SignatureKey key;
  std::vector<Shape> shapes;
  for (const CutValue& value : cut.values) {
    const bool dynamic = value.location.home == Home::kDynamic;
    shapes.push_back(dynamic ? state.dynamic_value(value.location.index).shape : value.spec.shape);
    append_shape(key, shapes.back());
    if (!value.as_constant) continue;
    TENON_TRY_ASSIGN(const size_t bytes, tensor_size_bytes(value.spec.type, shapes.back()));
    append_bytes(key, {static_cast<const std::byte*>(state.address(value.location)), bytes});
  }
  {
    auto rests = runtime.rests.lock();
    if (std::shared_ptr<PlanRuntime> found = rests->find(key)) return found;
  }
  std::vector<ConstantRef> constants(cut.values.size());
  for (size_t i = 0; i < cut.values.size(); ++i) {
    if (!cut.values[i].as_constant) continue;
    std::byte* data = nullptr;
    TENON_TRY_ASSIGN(constants[i], make_constant(cut.values[i].spec.type, shapes[i], &data));
    if (constants[i]->size_bytes > 0) {
      std::memcpy(data, state.address(cut.values[i].location), constants[i]->size_bytes);
    }
  }
  TENON_TRY_ASSIGN(std::shared_ptr<Plan> plan, build_rest(cut, shapes, constants, session_.planner_options()));
  planned_ = true;
  auto made = std::make_shared<PlanRuntime>(std::move(plan), session_.options().plan_cache_size);
  auto rests = runtime.rests.lock();
  return rests->insert(key, std::move(made));
}

Status Runner::run_rest(PlanRuntime& runtime, const RunState& state, const std::atomic<bool>* cancel) {
  TENON_TRY_ASSIGN(const std::shared_ptr<PlanRuntime> rest, find_rest(runtime, state));
  std::vector<void*> inputs;
  for (const CutValue& value : runtime.plan->cut->values) {
    if (!value.as_constant) inputs.push_back(state.address(value.location));
  }
  TENON_TRY(prepare(*rest, inputs));
  return run(*rest, inputs, cancel);
}

}  // namespace tenon
