// The resources that runs of plans share: those of a session's model, and those of the bodies of its If, Loop and Scan.
#pragma once

#include <memory>
#include <span>

#include <tenon/thread_pool.h>

#include "plan/placement.h"
#include "plan/plan.h"
#include "runtime/arena_pool.h"
#include "runtime/kept_texts.h"
#include "runtime/session_spaces.h"
#include "runtime/unfinished_runs.h"

namespace tenon {

// Makes the plans of what comes after a cut. Threads: any.
class RestPlanner {
 public:
  virtual ~RestPlanner() = default;
  // See build_rest. `disallow_copies`: strict mode of the run that asks.
  virtual Result<std::shared_ptr<Plan>> plan_rest(const PlanCut& cut, std::span<const Shape> shapes,
                                                  std::span<const ConstantRef> constants, const BoundSpaces& bound,
                                                  bool disallow_copies) const = 0;
};

// Lifetime: all of it outlives the runs.
struct RunResources {
  ThreadPool* pool = nullptr;
  ArenaPools* arenas = nullptr;
  const SessionSpaces* spaces = nullptr;
  KeptTexts* texts = nullptr;
  const RestPlanner* rests = nullptr;
  UnfinishedRuns* unfinished = nullptr;  // null: no run is on a stream
};

}  // namespace tenon
