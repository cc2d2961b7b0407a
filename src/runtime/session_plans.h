// The plans of a session's model.
#pragma once

#include <cstddef>
#include <memory>
#include <span>

#include <tenon/session.h>

#include "plan/planner.h"
#include "plan/signature.h"
#include "runtime/placed_constants.h"
#include "runtime/plan_cache.h"
#include "runtime/run_resources.h"

namespace tenon {

// Lifetime: what it is given outlives it. Threads: any.
class SessionPlans final : public RestPlanner {
 public:
  // `outputs`: as the model declares them, by slot.
  SessionPlans(const Graph& graph, std::span<const ValueInfo> outputs, PlannerOptions options,
               PlacedConstants& constants, size_t cache_size)
      : graph_(graph), outputs_(outputs), options_(std::move(options)), constants_(constants), plans_(cache_size) {}

  // `found` is the plan of `key`, which stands for `shapes` and `bound`, from the cache or made now.
  Status find(const SignatureKey& key, std::span<const Shape> shapes, const BoundSpaces& bound, bool disallow_copies,
              CachedPlan& found);
  Result<std::shared_ptr<Plan>> plan_rest(const PlanCut& cut, std::span<const Shape> shapes,
                                          std::span<const ConstantRef> constants, const BoundSpaces& bound,
                                          bool disallow_copies) const override;
  // A plan for a report, which never runs: the copies of its constants are only listed in `copies`. `trail` follows it.
  Result<std::shared_ptr<Plan>> explain(std::span<const Shape> shapes, const BoundSpaces& bound, CopyLedger& copies,
                                        NodeTrail& trail) const;

 private:
  Result<std::shared_ptr<Plan>> make(std::span<const Shape> shapes, const BoundSpaces& bound,
                                     const PlannerOptions& options) const;
  PlannerOptions options(bool disallow_copies) const;
  void warn_of_output_shapes(const Plan& plan) const;

  const Graph& graph_;
  const std::span<const ValueInfo> outputs_;
  const PlannerOptions options_;
  PlacedConstants& constants_;
  PlanCache plans_;
};

}  // namespace tenon
