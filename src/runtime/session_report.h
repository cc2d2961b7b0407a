// Reports of plans that are made for the report alone (Session::plan_report, explain_copies).
#pragma once

#include <map>
#include <span>
#include <string>

#include <tenon/plan_report.h>

#include "plan/node_trail.h"
#include "runtime/session_plans.h"

namespace tenon {

// Lifetime: of the call.
struct SessionReporter {
  const Graph& graph;
  std::span<const ValueInfo> inputs, outputs;
  const SessionSpaces& spaces;
  const SessionPlans& plans;
  const OnceCopies& copies;
  const NodeTrail& trail;  // up to the passes of loading
  KeptTexts& texts;

  // `shapes` has the inputs whose shape the model leaves open, `bound` the inputs and outputs that are not where the
  // session wants them. `strict`: a copy is an error. Errors: names that the model does not have, shapes that it cannot
  // take, memory that no EP can address.
  Result<PlanReport> report(const std::map<std::string, Shape>& shapes, const std::map<std::string, MemorySpace>& bound,
                            bool strict) const;

 private:
  Result<std::vector<Shape>> input_shapes(const std::map<std::string, Shape>& named) const;
  Result<BoundSpaces> bound_spaces(const std::map<std::string, MemorySpace>& named) const;
};

}  // namespace tenon
