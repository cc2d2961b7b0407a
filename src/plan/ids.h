// The ids of a plan's parts.
#pragma once

#include <cstdint>
#include <limits>

#include "base/strong_id.h"

namespace tenon {

// A step of a plan: a node that has a kernel, or a copy.
using StepId = StrongId<struct StepTag>;
// One of the session's outputs; none for a value that a plan only keeps until its end.
using OutputSlot = StrongId<struct OutputSlotTag>;
// A value of a plan whose size is known only after the step that makes it.
using DynamicId = StrongId<struct DynamicTag>;

// Before the first, and after the last, of a graph's nodes or a plan's steps.
template <typename Id>
inline constexpr Id kNever = Id::none();
template <typename Id>
inline constexpr Id kAtEnd = Id(std::numeric_limits<int32_t>::max());

}  // namespace tenon
