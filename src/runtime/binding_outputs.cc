#include "runtime/binding_outputs.h"

#include <algorithm>
#include <utility>

#include "device/copy.h"
#include "runtime/session_impl.h"

namespace tenon {

RunMemory BindingOutputs::memory(const Plan& plan, std::span<void* const> inputs) const {
  return {.plan = plan,
          .inputs = inputs,
          .outputs = binding_.outputs,
          .output_addresses = binding_.output_addresses,
          .output_infos = binding_.session->outputs(),
          .spaces = binding_.session->spaces()};
}

Status BindingOutputs::prepare(const Plan& plan, std::span<void* const> inputs) {
  for (const PlanOutput& output : plan.outputs) {
    if (output.spec.dynamic) continue;
    TENON_TRY(binding_.prepare_output(output.slot.index(), output.spec.type, output.spec.shape, output.space));
  }
  if (binding_.checked.is(plan.id, info_.disallow_copies, inputs, binding_.output_addresses)) return {};
  const size_t redirects = redirects_.size();
  const RunMemory bound = memory(plan, inputs);
  TENON_TRY(bound.check_outputs_apart());
  TENON_TRY(bound.check_copies(info_.disallow_copies));
  for (const PlanOutput& output : plan.outputs) {
    if (output.spec.dynamic || output.first_write == kAtEnd<StepId> || bound.overlapped_input(output) == nullptr)
      continue;
    TENON_TRY_ASSIGN(std::shared_ptr<std::byte> elsewhere,
                     bound.spaces.allocate_bytes(output.space, output.spec.size_bytes()));
    binding_.output_addresses[output.slot.index()] = elsewhere.get();
    redirects_.push_back({&plan, &output, std::move(elsewhere)});
  }
  if (redirects_.size() == redirects)
    binding_.checked.set(plan.id, info_.disallow_copies, inputs, binding_.output_addresses);
  return {};
}

Status BindingOutputs::copy(size_t slot, DataType type, const Shape& shape, void* source, SpaceId space,
                            CopyReason reason) {
  const SessionSpaces& spaces = binding_.session->spaces();
  TENON_TRY_ASSIGN(const size_t bytes, tensor_size_bytes(type, shape));
  MemorySpace from_space = spaces.table().at(space);
  from_space.alignment = 0;
  TENON_TRY_ASSIGN(const Tensor from, Tensor::view(type, shape, source, bytes, nullptr, from_space));
  const Tensor& target = binding_.outputs[slot].result;
  return copy_tensor(target, from, reason, binding_.session->outputs()[slot].name.c_str(), info_.ledger,
                     spaces.transfer(from.space(), target.space()));
}

namespace {

// Whether the run reads the value of `copied` no more.
bool is_last_use(const Plan& plan, const PlanCopy& copied) {
  return !plan.cut && std::none_of(plan.copies.begin(), plan.copies.end(), [&](const PlanCopy& other) {
    return &other > &copied && other.source.kind == copied.source.kind && other.source.index == copied.source.index;
  });
}

}  // namespace

bool BindingOutputs::becomes_output(const Plan& plan, const PlanCopy& copied) const {
  return copied.source.kind == StorageKind::kDynamic && copied.space == kHostSpace &&
         binding_.outputs[copied.output.index()].takes(kHostSpace) && is_last_use(plan, copied);
}

void BindingOutputs::lend_memory(const Plan& plan, RunState& state) {
  for (const PlanCopy& copied : plan.copies)
    if (becomes_output(plan, copied))
      binding_.lend_memory(copied.output.index(), state.dynamic_value(DynamicId(copied.source.index)));
}

Status BindingOutputs::copy_dynamic(const Plan& plan, const PlanCopy& copied, RunState& state) {
  const size_t slot = copied.output.index();
  const DynamicValue& value = state.dynamic_value(DynamicId(copied.source.index));
  const BoundOutput& output = binding_.outputs[slot];
  if (becomes_output(plan, copied))
    return binding_.exchange_output(slot, state.dynamic_value(DynamicId(copied.source.index)));
  if (copied.space != kHostSpace && output.takes(copied.space)) {
    const size_t capacity = value.capacity_bytes;
    const Shape shape = value.shape;
    const DataType type = value.type;
    return binding_.adopt_output(slot, type, shape, state.take_dynamic(DynamicId(copied.source.index)), capacity,
                                 copied.space);
  }
  const SpaceId space = output.is_auto && output.auto_space.valid() ? output.auto_space : copied.space;
  TENON_TRY(binding_.prepare_output(slot, value.type, value.shape, space));
  TENON_TRY(memory(plan, {}).check_outputs_apart());
  return copy(slot, value.type, value.shape, value.memory.get(), copied.space, copied.reason);
}

Status BindingOutputs::finish(const Plan& plan, RunState& state, bool /*is_rest*/) {
  for (const Redirect& redirect : redirects_) {
    if (redirect.plan != &plan) continue;
    const PlanOutput& output = *redirect.output;
    TENON_TRY(copy(output.slot.index(), output.spec.type, output.spec.shape, redirect.memory.get(), output.space,
                   CopyReason::kOverlap));
  }
  for (const PlanCopy& copied : plan.copies) {
    if (copied.source.kind == StorageKind::kDynamic) {
      TENON_TRY(copy_dynamic(plan, copied, state));
      continue;
    }
    const size_t slot = copied.output.index();
    const Tensor& target = binding_.outputs[slot].result;
    TENON_TRY(copy(slot, target.type(), target.shape(), state.address(copied.source), copied.space, copied.reason));
  }
  return {};
}

}  // namespace tenon
