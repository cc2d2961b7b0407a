#include "runtime/session_plans.h"

#include <memory>
#include <numeric>
#include <set>
#include <utility>

#include "base/log.h"
#include "runtime/dump.h"

namespace tenon {

PlannerOptions SessionPlans::options(bool disallow_copies) const {
  PlannerOptions options = options_;
  if (options.devices.empty()) return options;
  options.place_constant = [this, disallow_copies](const ConstantRef& constant, const std::string& name,
                                                   SpaceId space) {
    return constants_.place(constant, name, space, disallow_copies);
  };
  return options;
}

Result<std::shared_ptr<Plan>> SessionPlans::make(std::span<const Shape> shapes, const BoundSpaces& bound,
                                                 const PlannerOptions& options) const {
  std::vector<OutputSlot> slots(graph_.outputs.size());
  std::iota(slots.begin(), slots.end(), OutputSlot(0));
  TENON_TRY_ASSIGN(std::shared_ptr<Plan> plan, build_plan(graph_, shapes, slots, options, bound));
  for (const PlanStep& step : plan->steps) {
    if (!step.copy) continue;
    TENON_TRACE(kPlan, "\"{}\" will be copied from {} to {}: {}.", step.copy->what,
                plan->spaces[step.copy->source].to_string(), plan->spaces[step.copy->target].to_string(),
                copy_reason_name(step.copy->reason));
  }
  warn_of_output_shapes(*plan);
  TENON_TRACE(kPlan, "A plan is made for a new signature: {} steps, arena {} bytes.", plan->steps.size(),
              plan->arena_bytes);
  if (dump_enabled()) dump_text("plan", plan->to_text());
  return plan;
}

Status SessionPlans::find(const SignatureKey& key, std::span<const Shape> shapes, const BoundSpaces& bound,
                          bool disallow_copies, CachedPlan& found) {
  return plans_.find_or_make(key, [&] { return make(shapes, bound, options(disallow_copies)); }, found);
}

Result<std::shared_ptr<Plan>> SessionPlans::plan_rest(const PlanCut& cut, std::span<const Shape> shapes,
                                                      std::span<const ConstantRef> constants, const BoundSpaces& bound,
                                                      bool disallow_copies) const {
  TENON_TRY_ASSIGN(std::shared_ptr<Plan> plan, build_rest(cut, shapes, constants, options(disallow_copies), bound));
  warn_of_output_shapes(*plan);
  return plan;
}

Result<std::shared_ptr<Plan>> SessionPlans::explain(std::span<const Shape> shapes, const BoundSpaces& bound,
                                                    CopyLedger& copies, NodeTrail& trail) const {
  PlannerOptions options = options_;
  options.trail = &trail;
  std::set<std::pair<const Constant*, SpaceId>> listed;
  if (!options.devices.empty()) {
    options.place_constant = [&](const ConstantRef& constant, const std::string& name, SpaceId space) {
      const bool first = listed.emplace(constant.get(), space).second;
      return constants_.explain(constant, name, space, first ? &copies : nullptr);
    };
  }
  return make(shapes, bound, options);
}

// As ONNX Runtime: the shape that a model declares for an output is a hint, and a run that differs goes on.
void SessionPlans::warn_of_output_shapes(const Plan& plan) const {
  for (const PlanOutput& output : plan.outputs) {
    const ValueInfo& info = outputs_[output.slot.index()];
    if (output.spec.dynamic || !info.has_shape) continue;
    const Shape& shape = output.spec.shape;
    bool agrees = info.dims.size() == shape.dims().size();
    for (int axis = 0; axis < shape.rank() && agrees; ++axis) {
      const int64_t dim = info.dims[axis];
      agrees = dim < 0 || dim == shape[axis];
    }
    if (!agrees)
      log_warning("plan", "Output \"{}\" has the shape {}, and the model declares {}.", info.name, shape.to_string(),
                  info.to_string());
  }
}

}  // namespace tenon
