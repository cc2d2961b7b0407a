#include "runtime/run_fences.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "base/log.h"
#include "base/trace.h"

namespace tenon {

Status wait_for_fences(std::span<const Fence> fences, int64_t timeout_ns, const Deadline& run_deadline) {
  Deadline deadline = Deadline::after(timeout_ns);
  if (run_deadline.at_ns() < deadline.at_ns()) deadline = run_deadline;
  for (const Fence& fence : fences) {
    TENON_TRACE(kSync, "The run waits for {} to reach {}.", fence.timeline->name(), fence.value);
    const std::string name = trace_enabled() ? fence.timeline->name() : std::string();  // a run allocates nothing
    TraceSpan span("wait", name);
    if (span) span.args().add("timeline", name).add("value", fence.value);
    Status status = fence.wait(deadline.never() ? kWaitForever : deadline.remaining_ns());
    if (status.ok()) continue;
    const bool is_late = status.code() == StatusCode::kTimeout && run_deadline.passed();
    return std::move(status).with_context(
        format("while waiting for {}{}", fence.timeline->name(),
               is_late ? " in the time for the run (tenon.timeout_ms, RunOptions::run_timeout_ns)" : ""));
  }
  return {};
}

Status signal_fences(std::span<const Fence> fences) {
  Status first;
  for (const Fence& fence : fences) {
    TENON_TRACE(kSync, "The run signals {} with {}.", fence.timeline->name(), fence.value);
    const std::string name = trace_enabled() ? fence.timeline->name() : std::string();  // a run allocates nothing
    TraceSpan span("signal", name);
    if (span) span.args().add("timeline", name).add("value", fence.value);
    Status status = fence.signal();
    if (!status.ok() && first.ok()) {
      first = std::move(status).with_context(format("while signalling {}", fence.timeline->name()));
    }
  }
  return first;
}

void poison_fences(std::span<const Fence> fences, const Status& why) {
  for (const Fence& fence : fences) fence.timeline->poison(fence.value, why);
}

Status check_fences(std::span<const Fence> fences, std::string_view kind) {
  for (size_t i = 0; i < fences.size(); ++i) {
    TENON_INVALID_IF(!fences[i].defined(), "Fence {} of {} in {} has no timeline.", i, fences.size(), kind);
  }
  return {};
}

Status wait_for_stream(DeviceStream& stream) {
  TENON_TRACE(kSync, "The host waits for the caller's stream {}.", stream.id());
  const TraceSpan span("wait", "the caller's stream");
  TENON_TRY_ASSIGN(const std::unique_ptr<DeviceNotification> reached, stream.create_notification());
  if (reached == nullptr) return device_error("The caller's stream {} made no notification.", stream.id());
  TENON_TRY(reached->activate());
  TENON_TRY_CONTEXT(reached->wait_on_host(), "while waiting for the caller's stream {}", stream.id());
  return {};
}

EpId only_provider(const PlanRuntime& runtime, std::span<const EpId> active) {
  if (runtime.only_stream == kCpuEp || active.size() != 1 || active[0] != runtime.only_stream) return kCpuEp;
  const Plan& plan = *runtime.plan;
  const bool kernels =
      std::none_of(plan.steps.begin(), plan.steps.end(), [](const PlanStep& step) { return step.copy != nullptr; });
  const bool written = std::none_of(plan.outputs.begin(), plan.outputs.end(), [](const PlanOutput& output) {
    return output.spec.dynamic || output.first_write == kAtEnd<StepId>;
  });
  return kernels && written ? runtime.only_stream : kCpuEp;
}

HandedFences hand_fences(const RunOptions& options, bool ep_knows_deadline,
                         const std::function<bool(const Fence&)>& takes) {
  const auto takes_all = [&](std::span<const Fence> fences) {
    return std::all_of(fences.begin(), fences.end(), [&](const Fence& fence) { return takes(fence); });
  };
  HandedFences handed;
  // A device waits without a deadline, unless the EP knows of one.
  if (options.timeout_ns == kWaitForever && ep_knows_deadline && takes_all(options.waits)) handed.waits = options.waits;
  // Signals that come behind waits of the host are in order all the same.
  if (takes_all(options.signals)) handed.signals = options.signals;
  return handed;
}

}  // namespace tenon
