// Checks of the memory that is bound to a run: types and spaces when it is bound; overlaps, and the copies that strict
// mode refuses, when the plan of the run is known.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>

#include <tenon/session.h>

#include "plan/plan.h"
#include "runtime/session_spaces.h"

namespace tenon {

// An output of a binding.
struct BoundOutput {
  Tensor bound;   // the caller's, when defined
  Tensor memory;  // Tenon's, otherwise
  Tensor result;  // what output() gives: `bound` or `memory` with the real shape
  bool is_auto = true;
  SpaceId auto_space;  // where `memory` has to be; none: where the output is made
  bool ready = false;  // in this run: `result` is where the output goes

  // Whether memory that a run made in `space` may become the output: nobody asked for it elsewhere.
  bool takes(SpaceId space) const { return is_auto && (!auto_space.valid() || auto_space == space); }
};

bool ranges_overlap(const void* a, size_t a_bytes, const void* b, size_t b_bytes);

// For messages: `"x", "y"`, the first eight, or "none".
std::string listed_names(std::span<const ValueInfo> infos);

// True for a shape of ones where the model declares no dimensions: its element is the scalar, as ONNX Runtime takes it.
bool stands_for_scalar(const ValueInfo& info, const Shape& shape);

// Whether `tensor` can be bound to `info`, a `kind` ("input", "output") of the model. Errors: kInvalidArgument for
// another type or rank, kUnsupported for memory that no EP of the session can address.
Status check_tensor(const SessionSpaces& spaces, const ValueInfo& info, const Tensor& tensor, std::string_view kind);

// The memory of one run of a plan. Borrows all of it.
struct RunMemory {
  const Plan& plan;
  std::span<void* const> inputs;            // one address a plan input
  std::span<const BoundOutput> outputs;     // by slot
  std::span<void* const> output_addresses;  // by slot
  std::span<const ValueInfo> output_infos;  // by slot
  const SessionSpaces& spaces;

  // The input that `output` must not be written over; null when there is none.
  const PlanInput* overlapped_input(const PlanOutput& output) const;
  // Errors: kInvalidArgument names two outputs that overlap in memory.
  Status check_outputs_apart() const;
  // Errors: kInvalidArgument where an output overlaps an input that is needed after the output is written at the end,
  // and, with `disallow_copies`, for the first copy that the plan or the bound memory makes necessary.
  Status check_copies(bool disallow_copies) const;

 private:
  size_t extent(SpaceId space, size_t size_bytes) const;
  size_t extent(const Tensor& tensor) const;
  Status refuse_step(const PlanStep& step) const;
};

// Strict mode's answer to a plan that copies, whatever is bound. `outputs`: by slot. Errors: kInvalidArgument names the
// tensor.
Status refuse_copies(const Plan& plan, std::span<const ValueInfo> outputs);

}  // namespace tenon
