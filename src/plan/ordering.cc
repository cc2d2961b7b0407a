#include "plan/ordering.h"

#include <algorithm>
#include <vector>

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
  if (a.begin.home != b.begin.home || a.begin.index != b.begin.index) return false;
  if (a.begin.home == Home::kDynamic) return true;
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
  const Node& node = plan.graph.nodes[static_cast<size_t>(step.node)];
  const auto add = [&](std::vector<Range>& ranges, const Location& location, ValueId id) {
    if (location.home == Home::kAbsent || location.home == Home::kConstant || location.home == Home::kPlacedConstant) {
      return;
    }
    const TensorSpec spec = spec_of(plan.graph.value(id));
    ranges.push_back({location, spec.dynamic ? 0 : spec.size_bytes()});
  };
  for (size_t i = 0; i < step.inputs.size(); ++i) add(touched.reads, step.inputs[i], node.inputs[i]);
  for (size_t o = 0; o < step.outputs.size(); ++o) add(touched.writes, step.outputs[o], node.outputs[o]);
  if (step.scratch.home == Home::kArena) touched.writes.push_back({step.scratch, step.kernel->scratch_bytes()});
  return touched;
}

}  // namespace

void order_steps(Plan& plan, size_t providers) {
  plan.notifications.assign(providers, 0);
  plan.uses_stream.assign(providers, false);
  // seen[e][f]: the last step of stream f that everything of executor e from now on comes after.
  std::vector<std::vector<int32_t>> seen(providers + 1, std::vector<int32_t>(providers + 1, -1));
  std::vector<Touched> touched;
  std::vector<int32_t> on_streams;
  for (size_t j = 0; j < plan.steps.size(); ++j) {
    PlanStep& step = plan.steps[j];
    touched.push_back(touched_by(plan, step));
    const auto executor = static_cast<size_t>(step.executor);
    std::vector<int32_t> last(providers + 1, -1);  // by stream: the last step that this one waits for
    for (int32_t i : on_streams) {
      const auto stream = static_cast<size_t>(plan.steps[static_cast<size_t>(i)].executor);
      if (stream == executor || seen[executor][stream] >= i) continue;
      if (conflict(touched[static_cast<size_t>(i)], touched[j])) last[stream] = i;
    }
    for (size_t stream = 1; stream <= providers; ++stream) {
      if (last[stream] < 0) continue;
      PlanStep& earlier = plan.steps[static_cast<size_t>(last[stream])];
      if (earlier.notify < 0) earlier.notify = plan.notifications[stream - 1]++;
      step.waits.push_back({static_cast<int32_t>(stream), earlier.notify});
      // What the host has seen is over before anything later is enqueued anywhere.
      for (size_t e = 0; e <= providers; ++e) {
        if (executor == 0 || e == executor) seen[e][stream] = std::max(seen[e][stream], last[stream]);
      }
    }
    if (executor == 0) continue;
    on_streams.push_back(static_cast<int32_t>(j));
    plan.uses_stream[executor - 1] = true;
    plan.asynchronous = true;
  }
}

}  // namespace tenon
