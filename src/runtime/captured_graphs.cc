#include "runtime/captured_graphs.h"

#include <algorithm>
#include <utility>

#include "base/log.h"

namespace tenon {

namespace {

// An EP captures when it is warm; the reference makes those runs at once too.
constexpr int kMostRuns = 8;

// Whether the steps of one EP are all that a run does.
bool is_one_eps(const Plan& plan) {
  return plan.copies.empty() && !plan.cut && plan.dynamic_spaces.empty() &&
         std::all_of(plan.steps.begin(), plan.steps.end(), [&](const PlanStep& step) {
           return !step.copy && step.ep == plan.steps[StepId(0)].ep && step.ep != kCpuEp;
         });
}

}  // namespace

Result<bool> CapturedGraphs::replay(int32_t graph, const std::shared_ptr<PlanRuntime>& runtime,
                                    std::span<void* const> inputs, std::span<void* const> outputs) {
  const auto known = graphs_.find(graph);
  TENON_TRY_ASSIGN(const bool captured, capture_.is_captured(graph));
  if (!captured || known == graphs_.end()) {
    if (known != graphs_.end()) graphs_.erase(known);
    return false;
  }
  const Captured& before = known->second;
  if (before.plan == runtime && std::equal(inputs.begin(), inputs.end(), before.inputs.begin(), before.inputs.end()) &&
      std::equal(outputs.begin(), outputs.end(), before.outputs.begin(), before.outputs.end())) {
    TENON_TRY_CONTEXT(capture_.replay(graph), "while replaying graph {}", graph);
    return true;
  }
  const Status released = capture_.release(graph);
  if (!released.ok() && released.code() != StatusCode::kUnsupported) return released;
  graphs_.erase(known);
  return false;
}

Status CapturedGraphs::run_and_capture(int32_t graph, const std::shared_ptr<PlanRuntime>& runtime,
                                       std::span<void* const> inputs, std::span<void* const> outputs, const Run& run) {
  Memory unused;
  TENON_TRY_ASSIGN(bool captured, capture_.is_captured(graph));
  if (captured || !is_one_eps(*runtime->plan)) return run(unused).status();
  for (int i = 0; i < kMostRuns && !captured; ++i) {
    Captured made{runtime, {inputs.begin(), inputs.end()}, {outputs.begin(), outputs.end()}, {}};
    TENON_TRY_ASSIGN(const bool complete, run(made.memory));
    TENON_TRY_ASSIGN(captured, capture_.is_captured(graph));
    if (captured && complete) graphs_[graph] = std::move(made);
  }
  if (!captured) log_warning("plan", "The EP has captured no graph in {} runs.", kMostRuns);
  return {};
}

}  // namespace tenon
