#include "plan/ordering.h"

#include <algorithm>
#include <vector>

#include "device/memory_space.h"
#include "plan/views.h"

namespace tenon {

namespace {

// Bytes of one memory, or all of it.
struct Range {
  Location begin;
  size_t size_bytes = 0;
};

struct Touched {
  std::vector<Range> reads;
  std::vector<Range> writes;
};

bool overlap(const Range& a, const Range& b) {
  if (a.begin.kind != b.begin.kind || a.begin.index != b.begin.index) return false;
  if (a.begin.kind == StorageKind::kDynamic) return true;
  return a.begin.offset_bytes < b.begin.offset_bytes + b.size_bytes &&
         b.begin.offset_bytes < a.begin.offset_bytes + a.size_bytes;
}

bool overlap(const std::vector<Range>& a, const std::vector<Range>& b) {
  return std::any_of(a.begin(), a.end(), [&](const Range& one) {
    return std::any_of(b.begin(), b.end(), [&](const Range& other) { return overlap(one, other); });
  });
}

bool conflict(const Touched& earlier, const Touched& later) {
  return overlap(earlier.writes, later.reads) || overlap(earlier.writes, later.writes) ||
         overlap(earlier.reads, later.writes);
}

Touched touched_by(const Plan& plan, const PlanStep& step) {
  Touched touched;
  const Node& node = plan.graph.nodes[step.node];
  const auto add = [&](std::vector<Range>& ranges, const Location& location, ValueId id) {
    if (location.kind == StorageKind::kAbsent || location.kind == StorageKind::kConstant ||
        location.kind == StorageKind::kPlacedConstant) {
      return;
    }
    const TensorSpec spec = spec_of(plan.graph.value(id));
    ranges.push_back({location, spec.dynamic ? 0 : spec.size_bytes()});
  };
  for (size_t i = 0; i < step.inputs.size(); ++i) add(touched.reads, step.inputs[i], node.inputs[i]);
  for (size_t o = 0; o < step.outputs.size(); ++o) add(touched.writes, step.outputs[o], node.outputs[o]);
  if (step.scratch.kind == StorageKind::kArena) touched.writes.push_back({step.scratch, step.kernel->scratch_bytes()});
  return touched;
}

}  // namespace

bool reads_when_enqueued(const Plan& plan, const PlanStep& step) {
  return step.copy && step.executor != kCpuEp && host_can_address(plan.spaces[step.copy->source]);
}

void order_steps(Plan& plan, size_t devices) {
  plan.points.assign(devices, 0);
  plan.uses_stream.assign(devices, false);
  using PerStream = PerDeviceEp<StepId>;
  // seen[e][f]: the last step of stream f that everything of executor e from now on comes after.
  IdVector<EpId, PerStream> seen(devices + 1, PerStream(devices));
  IdVector<StepId, Touched> touched;
  std::vector<StepId> on_streams;
  for (StepId j : plan.steps.ids()) {
    PlanStep& step = plan.steps[j];
    touched.push_back(touched_by(plan, step));
    const EpId executor = step.executor;
    const bool reads_now = reads_when_enqueued(plan, step);
    // By stream: the last step that this one waits for, on the host or where it runs.
    PerStream on_host(devices), last(devices);
    for (StepId i : on_streams) {
      const EpId stream = plan.steps[i].executor;
      const Touched& earlier = touched[i];
      const bool for_host =
          executor == kCpuEp ? conflict(earlier, touched[j]) : reads_now && overlap(earlier.writes, touched[j].reads);
      if (for_host && seen[kCpuEp][stream] < i) on_host[stream] = i;
      if (executor == kCpuEp || stream == executor || seen[executor][stream] >= i) continue;
      if (conflict(earlier, touched[j])) last[stream] = i;
    }
    const auto wait_for = [&](EpId stream, StepId i, bool host) {
      PlanStep& earlier = plan.steps[i];
      if (!earlier.notify.valid()) earlier.notify = PointId(plan.points[stream]++);
      step.waits.push_back({stream, earlier.notify, host && executor != kCpuEp});
      // A step that the host has waited for is over before anything later is enqueued anywhere.
      for (EpId e : seen.ids()) {
        if (host || e == executor) seen[e][stream] = std::max(seen[e][stream], i);
      }
    };
    for (EpId stream : last.ids()) {
      if (on_host[stream].valid()) wait_for(stream, on_host[stream], true);
      if (last[stream] > on_host[stream]) wait_for(stream, last[stream], false);
    }
    if (executor == kCpuEp) continue;
    on_streams.push_back(j);
    plan.uses_stream[executor] = true;
    plan.asynchronous = true;
  }
}

}  // namespace tenon
