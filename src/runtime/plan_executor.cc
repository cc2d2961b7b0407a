#include "runtime/plan_executor.h"

#include <cstring>
#include <utility>

#include "device/copy.h"
#include "device/memory_space.h"

namespace tenon {

Status PlanExecutor::run_part(PlanRuntime& runtime, std::span<void* const> inputs, PlanOutputs& outputs, bool is_rest) {
  const Plan& plan = *runtime.plan;
  PlanLease lease(resources_, runtime);
  if (device_) TENON_TRY(take_over(runtime, lease));
  TENON_TRY(lease.take(last_state));
  RunState& state = lease.state();
  last_state = &state;
  state.bind(inputs, outputs.addresses());
  outputs.lend_memory(plan, state);
  if (used_memory != nullptr) {
    for (const Arena& arena : state.held) used_memory->push_back(arena.memory);
    used_memory->insert(used_memory->end(), state.handles().begin(), state.handles().end());
  }
  TENON_TRY(run_steps(runtime, lease, outputs));
  if (plan.cut) TENON_TRY(run_rest(runtime, state, outputs));
  return outputs.finish(plan, state, is_rest);
}

Status PlanExecutor::take_over(const PlanRuntime& runtime, PlanLease& lease) {
  for (EpId ep : device_->streams->eps()) {
    const DeviceStream* stream = device_->streams->stream(ep);
    if (stream == nullptr) continue;
    std::optional<UnfinishedRun> earlier = resources_.unfinished->take(stream->id());
    if (!earlier) continue;
    if (runtime.only_stream == ep) {
      lease.continue_after(*std::move(earlier));
    } else {
      TENON_TRY(finish(*std::move(earlier), *resources_.arenas));
    }
  }
  return {};
}

// Memory is given back, and read, only when no stream works on it any more, also after a failure.
Status PlanExecutor::run_steps(const PlanRuntime& runtime, PlanLease& lease, const PlanOutputs& outputs) {
  if (!device_) return lease.state().run_steps(info_, nullptr);
  const Plan& plan = *runtime.plan;
  for (EpId ep : plan.uses_stream.ids()) {
    if (plan.uses_stream[ep]) TENON_TRY(device_->streams->prepare(ep, plan.points[ep]));
  }
  Status status = lease.state().run_steps(info_, &*device_);
  const bool may_leave = may_return_early_ && runtime.only_stream != kCpuEp && outputs.written_directly();
  if (status.ok() && may_leave && lease.may_leave() && leave(runtime, lease)) return {};
  Status synchronized = device_->streams->synchronize();
  lease.finish(synchronized.ok());
  return status.ok() ? std::move(synchronized) : std::move(status);
}

bool PlanExecutor::leave(const PlanRuntime& runtime, PlanLease& lease) {
  // The earlier point is the same stream's, which has been left behind it.
  Result<std::unique_ptr<DeviceNotification>> end = device_->streams->leave(runtime.only_stream, lease.take_end());
  if (!end.ok()) return false;
  lease.leave(device_->streams->stream(runtime.only_stream)->id(), std::move(end).value());
  returned_early_ = true;
  return true;
}

Result<ConstantRef> PlanExecutor::read_value(const CutValue& value, const Shape& shape, const RunState& state) const {
  std::byte* data = nullptr;
  TENON_TRY_ASSIGN(ConstantRef constant, make_constant(value.spec.type, shape, &data));
  if (constant->size_bytes == 0) return constant;
  MemorySpace space = resources_.spaces->table().at(value.space);
  if (host_can_address(space)) {
    // No transfer between tensors: the planner reads numbers, and keeps them as a constant.
    std::memcpy(data, state.address(value.location), constant->size_bytes);
    return constant;
  }
  space.alignment = 0;
  TENON_TRY_ASSIGN(const Tensor from, Tensor::view(value.spec.type, shape, state.address(value.location),
                                                   constant->size_bytes, nullptr, space));
  TENON_TRY_ASSIGN(const Tensor to, Tensor::view(value.spec.type, shape, data, constant->size_bytes));
  if (info_.disallow_copies) {
    return copy_disallowed(value.name.c_str(), space, to.space(), CopyReason::kNotCompatible)
        .with_context("while the host reads a value to plan the rest");
  }
  TENON_TRY(copy_tensor(to, from, CopyReason::kNotCompatible, resources_.texts->keep(value.name), info_.ledger,
                        resources_.spaces->transfer(from.space(), to.space())));
  return constant;
}

Result<std::shared_ptr<PlanRuntime>> PlanExecutor::find_rest(PlanRuntime& runtime, const RunState& state,
                                                             const PlanOutputs& outputs) {
  const PlanCut& cut = *runtime.plan->cut;
  const SessionSpaces& spaces = *resources_.spaces;
  SignatureKey key;
  std::vector<Shape> shapes;
  std::vector<ConstantRef> constants(cut.values.size());
  BoundSpaces bound;
  for (size_t i = 0; i < cut.values.size(); ++i) {
    const CutValue& value = cut.values[i];
    const bool dynamic = value.location.kind == StorageKind::kDynamic;
    shapes.push_back(dynamic ? state.dynamic_value(DynamicId(value.location.index)).shape : value.spec.shape);
    append_shape(key, shapes.back());
    if (value.as_constant) {
      TENON_TRY_ASSIGN(constants[i], read_value(value, shapes.back(), state));
      append_bytes(key, {constants[i]->data.bytes(), constants[i]->size_bytes});
      continue;
    }
    MemorySpace& space = bound.inputs.emplace_back(spaces.table().at(value.space));
    // A tensor made in a run is aligned as its space is; a caller's tensor may begin anywhere.
    if (value.location.kind == StorageKind::kInput)
      space.alignment = spaces.alignment_of(state.address(value.location));
    key.push_back(SessionSpaces::word(value.space, space.alignment));
  }
  CachedPlan found;
  const auto make = [&] {
    bound.outputs = outputs.bound_spaces();
    return resources_.rests->plan_rest(cut, shapes, constants, bound, info_.disallow_copies);
  };
  TENON_TRY(runtime.rests.find_or_make(key, make, found));
  planned_ = planned_ || found.made;
  return std::move(found.runtime);
}

Status PlanExecutor::run_rest(PlanRuntime& runtime, const RunState& state, PlanOutputs& outputs) {
  TENON_TRY_ASSIGN(const std::shared_ptr<PlanRuntime> rest, find_rest(runtime, state, outputs));
  std::vector<void*> inputs;
  for (const CutValue& value : runtime.plan->cut->values) {
    if (!value.as_constant) inputs.push_back(state.address(value.location));
  }
  TENON_TRY(outputs.prepare(*rest->plan, inputs));
  return run_part(*rest, inputs, outputs, /*is_rest=*/true);
}

}  // namespace tenon
