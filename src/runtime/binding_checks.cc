#include "runtime/binding_checks.h"

#include <algorithm>

#include <tenon/object.h>

#include "device/copy.h"

namespace tenon {

bool ranges_overlap(const void* a, size_t a_bytes, const void* b, size_t b_bytes) {
  const auto x = reinterpret_cast<uintptr_t>(a);
  const auto y = reinterpret_cast<uintptr_t>(b);
  return a_bytes > 0 && b_bytes > 0 && x < y + b_bytes && y < x + a_bytes;
}

namespace {

// A kernel is asked when its output lies over its input, and not before: a device's may have to be compiled for that.
bool runs_in_place(const Plan& plan, const PlanOutput& output, const SharedMemory& shared) {
  const Kernel& kernel = *plan.steps[output.first_write].kernel;
  return std::all_of(shared.in_place.begin(), shared.in_place.end(), [&](const std::pair<int32_t, int32_t>& pair) {
    return kernel.may_run_in_place(pair.first, pair.second);
  });
}

Status refuse_copy_step(const Plan& plan, const PlanStep& step) {
  return copy_disallowed(step.copy->what, plan.spaces[step.copy->source], plan.spaces[step.copy->target],
                         step.copy->reason);
}

bool moves_bytes(const PlanStep& step) { return step.copy && step.copy->spec.size_bytes() > 0; }

// Of an output whose size only a run knows, too.
bool moves_bytes(const Plan& plan, const PlanCopy& copy) {
  const auto output = std::find_if(plan.outputs.begin(), plan.outputs.end(),
                                   [&](const PlanOutput& one) { return one.slot == copy.output; });
  return output == plan.outputs.end() || output->spec.dynamic || output->spec.size_bytes() > 0;
}

Status refuse_output_copy(const std::string& output, const PlanCopy& copy) {
  return invalid_argument("Output \"{}\" would have to be copied ({}), and tenon.disallow_copies is set.", output,
                          copy_reason_name(copy.reason));
}

}  // namespace

std::string listed_names(std::span<const ValueInfo> infos) {
  constexpr size_t kMost = 8;
  std::string known;
  for (size_t i = 0; i < infos.size() && i < kMost; ++i)
    known += format("{}\"{}\"", known.empty() ? "" : ", ", infos[i].name);
  if (infos.size() > kMost) known += ", ...";
  return known.empty() ? "none" : known;
}

bool stands_for_scalar(const ValueInfo& info, const Shape& shape) {
  return info.has_shape && info.dims.empty() && shape.rank() > 0 &&
         std::all_of(shape.dims().begin(), shape.dims().end(), [](int64_t dim) { return dim == 1; });
}

Status check_tensor(const SessionSpaces& spaces, const ValueInfo& info, const Tensor& tensor, std::string_view kind) {
  TENON_INVALID_IF(!tensor.defined(), "The tensor for {} \"{}\" is undefined.", kind, info.name);
  TENON_INVALID_IF(info.type != DataType::kUndefined && tensor.type() != info.type,
                   "The tensor for {} \"{}\" has type {}, but the model declares {}.", kind, info.name,
                   data_type_name(tensor.type()), info.to_string());
  TENON_INVALID_IF(info.object != nullptr && !is_of_type(object_of(tensor).get(), info.object),
                   "The value for {} \"{}\" is not of the type that the model declares: {}.", kind, info.name,
                   info.to_string());
  TENON_INVALID_IF(info.has_shape && tensor.shape().dims().size() != info.dims.size(),
                   "The tensor for {} \"{}\" has rank {} (shape {}), but the model declares rank {} ({}).", kind,
                   info.name, tensor.shape().rank(), tensor.shape().to_string(), info.dims.size(), info.to_string());
  TENON_UNSUPPORTED_IF(!spaces.table().find(tensor.space()).valid(),
                       "The tensor for {} \"{}\" lives in {}, which the cpu EP cannot address{}.", kind, info.name,
                       tensor.space().to_string(), spaces.has_devices() ? ", nor another EP of the session" : "");
  return {};
}

// How far a tensor reaches from its address: a handle is next to nothing.
size_t RunMemory::extent(SpaceId space, size_t size_bytes) const {
  const bool handle = space != kHostSpace && spaces.table().handles[space];
  return handle ? std::min<size_t>(size_bytes, 1) : size_bytes;
}

size_t RunMemory::extent(const Tensor& tensor) const {
  if (!spaces.has_devices()) return tensor.size_bytes();
  return extent(spaces.table().find(tensor.space()), tensor.size_bytes());
}

Status RunMemory::check_outputs_apart() const {
  for (const PlanOutput& output : plan.outputs) {
    const size_t slot = output.slot.index();
    if (!outputs[slot].ready) continue;
    const Tensor& mine = outputs[slot].result;
    for (size_t other = 0; other < outputs.size(); ++other) {
      if (other == slot || !outputs[other].ready) continue;
      const Tensor& theirs = outputs[other].result;
      TENON_INVALID_IF(ranges_overlap(mine.data(), extent(mine), theirs.data(), extent(theirs)),
                       "The tensors bound to outputs \"{}\" and \"{}\" overlap in memory.", output_infos[slot].name,
                       output_infos[other].name);
    }
  }
  return {};
}

const PlanInput* RunMemory::overlapped_input(const PlanOutput& output) const {
  const void* target = output_addresses[output.slot.index()];
  const size_t target_bytes = output.spec.size_bytes();
  // An output that is only copied to at the end is written after all steps, and shares what it likes.
  for (size_t i = 0; i < output.shared.size(); ++i) {
    const PlanInput& input = plan.inputs[i];
    const SharedMemory& shared = output.shared[i];
    if (shared.kind == SharedMemory::Kind::kAnything ||
        !ranges_overlap(inputs[i], extent(input.space, input.spec.size_bytes()), target,
                        extent(output.space, target_bytes)))
      continue;
    const bool same = inputs[i] == target && input.spec.size_bytes() == target_bytes;
    if (same && shared.kind == SharedMemory::Kind::kExactly && runs_in_place(plan, output, shared)) continue;
    return &input;
  }
  return nullptr;
}

Status refuse_copies(const Plan& plan, std::span<const ValueInfo> outputs) {
  for (const PlanStep& step : plan.steps) {
    if (moves_bytes(step)) return refuse_copy_step(plan, step);
  }
  for (const PlanCopy& copy : plan.copies) {
    if (moves_bytes(plan, copy)) return refuse_output_copy(outputs[copy.output.index()].name, copy);
  }
  return {};
}

Status RunMemory::refuse_step(const PlanStep& step) const {
  Status refused = refuse_copy_step(plan, step);
  if (step.copy->reason != CopyReason::kAlignment) return refused;
  const Location& from = step.inputs[0];
  const Location& to = step.outputs[0];
  if (from.kind == StorageKind::kInput) {
    return invalid_argument("{} Input \"{}\" begins at {}, which is no multiple of the {} bytes that its reader takes.",
                            refused.message(), plan.inputs[from.place()].name, inputs[from.place()],
                            plan.spaces[step.copy->target].alignment);
  }
  if (to.kind == StorageKind::kOutput) {
    const size_t slot = to.place();
    return invalid_argument("{} Output \"{}\" begins at {}, which is no multiple of the {} bytes that its maker takes.",
                            refused.message(), output_infos[slot].name, output_addresses[slot],
                            plan.spaces[step.copy->source].alignment);
  }
  return refused;
}

Status RunMemory::check_copies(bool disallow_copies) const {
  if (disallow_copies) {
    for (const PlanStep& step : plan.steps) {
      if (moves_bytes(step)) return refuse_step(step);
    }
  }
  for (const PlanCopy& copy : plan.copies) {
    const size_t slot = copy.output.index();
    const bool in_place =
        copy.source.kind == StorageKind::kInput && outputs[slot].ready &&
        static_cast<std::byte*>(inputs[copy.source.place()]) + copy.source.offset_bytes == output_addresses[slot];
    if (disallow_copies && !in_place && moves_bytes(plan, copy))
      return refuse_output_copy(output_infos[slot].name, copy);
    if (in_place) continue;
    for (size_t i = 0; i < plan.inputs.size(); ++i) {
      const PlanInput& input = plan.inputs[i];
      if (input.last_read != kAtEnd<StepId> || !outputs[slot].ready) continue;
      const Tensor& target = outputs[slot].result;
      TENON_INVALID_IF(
          ranges_overlap(inputs[i], extent(input.space, input.spec.size_bytes()), target.data(), extent(target)),
          "The tensor bound to output \"{}\" overlaps input \"{}\", which is still needed when the output is copied.",
          output_infos[slot].name, input.name);
    }
  }
  if (!disallow_copies) return {};
  for (const PlanOutput& output : plan.outputs) {
    if (output.spec.dynamic || output.first_write == kAtEnd<StepId>) continue;
    if (const PlanInput* input = overlapped_input(output)) {
      return invalid_argument(
          "The tensor bound to output \"{}\" overlaps input \"{}\", which is read after the output is written, so it "
          "would have to be copied ({}), and tenon.disallow_copies is set.",
          output.name, input->name, copy_reason_name(CopyReason::kOverlap));
    }
  }
  return {};
}

}  // namespace tenon
