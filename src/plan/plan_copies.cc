// Lists the copies that runs of a plan make.
#include <algorithm>

#include "base/format.h"
#include "device/copy.h"
#include "plan/control_flow.h"
#include "plan/plan.h"
#include "plan/regions.h"

namespace tenon {

namespace {

// A node whose bodies the host runs: an If, Loop or Scan, or a region that is one.
bool has_bodies(const Node& node) {
  if (is_control_flow(node)) return true;
  if (!is_region(node)) return false;
  const Graph& body = region_body(node);
  return std::any_of(body.nodes.begin(), body.nodes.end(), is_control_flow);
}

}  // namespace

void explain_copies(const Plan& plan, std::span<const std::optional<MemoryPlace>> outputs,
                    const std::function<const char*(const std::string&)>& keep_text, CopyLedger& copies,
                    std::vector<std::string>& open) {
  const auto place = [&](int32_t index) { return plan.places[static_cast<size_t>(index)]; };
  for (const PlanStep& step : plan.steps) {
    if (step.copy) {
      note_copy({.bytes = step.copy->spec.size_bytes(),
                 .source = place(step.copy->source),
                 .target = place(step.copy->target),
                 .reason = step.copy->reason,
                 .what = step.copy->what},
                &copies);
      continue;
    }
    const Node& node = plan.graph.nodes[static_cast<size_t>(step.node)];
    if (step.provider == 0 ? is_control_flow(node) : step.executor == 0 && has_bodies(node)) {
      open.push_back(
          format("The bodies of {} may hand values over by copies, as their data say.", node.label(plan.graph)));
    }
  }
  for (const PlanCopy& copy : plan.copies) {
    const auto output = std::find_if(plan.outputs.begin(), plan.outputs.end(),
                                     [&](const PlanOutput& one) { return one.slot == copy.output; });
    if (output == plan.outputs.end()) continue;
    if (output->spec.dynamic) {
      open.push_back(
          format("Output \"{}\" is copied where it is bound, and its size is only known after it was computed.",
                 output->name));
      continue;
    }
    const auto slot = static_cast<size_t>(copy.output);
    const bool bound = slot < outputs.size() && outputs[slot];
    note_copy({.bytes = output->spec.size_bytes(),
               .source = place(copy.place),
               .target = bound ? *outputs[slot] : place(output->place),
               .reason = copy.reason,
               .what = keep_text(output->name)},
              &copies);
  }
  if (plan.cut)
    open.push_back(
        format("{} nodes are planned at run time, when their shapes are known.", plan.cut->rest.nodes.size()));
}

}  // namespace tenon
