// Finds the waits between steps of a plan that run on different streams.
#pragma once

#include "plan/plan.h"

namespace tenon {

// Whether a step reads its source when it is enqueued: a transfer may read host memory when it is asked, not when its
// stream comes to it (as CUDA does with pageable memory).
bool reads_when_enqueued(const Plan& plan, const PlanStep& step);

// Steps of one stream run in their order, and what the host does is done before the next step is enqueued. What is left
// are a stream's steps that a step elsewhere conflicts with: they write what it reads or writes, or read what it writes
// (memory of an arena is used again as soon as its value is dead, and a stream may still be reading it). What a step
// reads when it is enqueued has to be there by then: the host waits for the step that writes it, also for one of the
// same stream. Sets waits, notify, and the plan's counts.
void order_steps(Plan& plan, size_t devices);

}  // namespace tenon
