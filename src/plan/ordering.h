// Which steps of a plan wait for which others, where streams run them.
#pragma once

#include "plan/plan.h"

namespace tenon {

// Steps of one stream run in their order, and what the host does is done before the next step is enqueued. What is left
// are a stream's steps that a step elsewhere conflicts with: they write what it reads or writes, or read what it writes
// (memory of an arena is used again as soon as its value is dead, and a stream may still be reading it). Sets waits,
// notify, and the plan's counts.
void order_steps(Plan& plan, size_t providers);

}  // namespace tenon
