#include "runtime/unfinished_runs.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "plan/ordering.h"

namespace tenon {

EpId only_stream(const Plan& plan) {
  if (plan.steps.empty() || plan.cut != nullptr || !plan.copies.empty()) return kCpuEp;
  // These belong to the run's state, which the next run of any stream may take.
  if (!plan.dynamic_spaces.empty() || !plan.handle_buffers.empty()) return kCpuEp;
  const EpId executor = plan.steps[StepId(0)].executor;
  const bool alone = std::all_of(plan.steps.begin(), plan.steps.end(), [&](const PlanStep& step) {
    return step.executor == executor && !reads_when_enqueued(plan, step);
  });
  return alone ? executor : kCpuEp;
}

Status finish(UnfinishedRun run, ArenaPools& arenas) {
  Status first;
  for (const auto& end : run.ends) {
    Status status = end->wait_on_host();
    if (first.ok()) first = std::move(status);
  }
  for (SpaceId space : run.arenas.ids()) {
    if (!first.ok()) break;
    for (Arena& arena : run.arenas[space]) arenas[space].release(std::move(arena));
  }
  return std::move(first).with_context("while waiting for a run that returned before its stream had done its work");
}

std::optional<UnfinishedRun> UnfinishedRuns::take(uint64_t stream_id) {
  auto runs = runs_.lock();
  std::optional<UnfinishedRun> taken;
  for (UnfinishedRun& run : *runs) {
    if (run.stream_id != stream_id) continue;
    if (!taken) {
      taken = std::move(run);
      continue;
    }
    std::move(run.ends.begin(), run.ends.end(), std::back_inserter(taken->ends));
    for (SpaceId space : run.arenas.ids()) {
      std::move(run.arenas[space].begin(), run.arenas[space].end(), std::back_inserter(taken->arenas[space]));
    }
  }
  std::erase_if(*runs, [&](const UnfinishedRun& run) { return run.stream_id == stream_id; });
  return taken;
}

Status UnfinishedRuns::finish_all(ArenaPools& arenas) {
  std::vector<UnfinishedRun> runs = std::exchange(*runs_.lock(), {});
  Status first;
  for (UnfinishedRun& run : runs) {
    Status status = finish(std::move(run), arenas);
    if (first.ok()) first = std::move(status);
  }
  return first;
}

}  // namespace tenon
