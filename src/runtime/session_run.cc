#include "runtime/session_run.h"

#include <utility>

#include "base/log.h"
#include "runtime/run_fences.h"

namespace tenon {

Status SessionRun::wait(const PlanRuntime& runtime) {
  if (options_.waits.empty() && options_.signals.empty()) [[likely]]
    return {};
  const EpId ep = only_provider(runtime, devices_.active());
  // The host copies what is written elsewhere first, before it may signal, and a graph's replay knows no fences.
  CapturedGraphs* graphs = devices_.graphs();
  if (ep != kCpuEp && outputs_.written_directly() && (graphs == nullptr || graphs->graph_of(info_) < 0)) {
    const DeviceProvider& provider = devices_.provider(ep);
    const bool knows_deadline = info_.deadline.never() || info_.native_options != nullptr;  // tenon.timeout_ms
    const HandedFences handed =
        hand_fences(options_, knows_deadline, [&](const Fence& fence) { return provider.takes_fence(fence); });
    info_.waits = handed.waits;
    info_.signals = handed.signals;
    info_.calls = runtime.plan->steps.size();
    if (handed.signals.size() == options_.signals.size()) may_return_early_ = !options_.synchronize;
    TENON_TRACE(kSync, "The EP \"{}\" waits for {} and signals {} of the run's fences.", provider.name(),
                info_.waits.size(), info_.signals.size());
  }
  return info_.waits.empty() ? wait_for_fences(options_.waits, options_.timeout_ns, info_.deadline) : Status();
}

Status SessionRun::signal(Status ran) const {
  if (ran.ok() && info_.signals.empty()) ran = signal_fences(options_.signals);
  if (!ran.ok()) poison_fences(options_.signals, ran);
  return ran;
}

Status SessionRun::run(const std::shared_ptr<PlanRuntime>& runtime) {
  if (resources_.spaces->has_devices()) return run_on_devices(runtime);
  if (caller_stream_ != nullptr) TENON_TRY(wait_for_stream(*caller_stream_));
  PlanExecutor executor(resources_, info_);
  return run_plan(*runtime, executor);
}

Status SessionRun::run_plan(PlanRuntime& runtime, PlanExecutor& executor) {
  executor.last_state = binding_.last_state;
  Status status = executor.run(runtime, binding_.input_addresses, outputs_);
  binding_.last_state = executor.last_state;
  planned_ = planned_ || executor.planned();
  return status;
}

Status SessionRun::run_on_devices(const std::shared_ptr<PlanRuntime>& runtime) {
  const std::unique_lock<std::mutex> alone = devices_.enter();
  CapturedGraphs* graphs = devices_.graphs();
  const int32_t graph = graphs != nullptr && options_.values == nullptr ? graphs->graph_of(info_) : -1;
  if (graph < 0) return run_between(*runtime, nullptr);
  // A graph belongs to the EP's own stream, and to memory that no later run may be in.
  may_return_early_ = false;
  if (caller_stream_ != nullptr) TENON_TRY(wait_for_stream(*std::exchange(caller_stream_, nullptr)));
  TENON_TRY_ASSIGN(const bool replayed,
                   graphs->replay(graph, runtime, binding_.input_addresses, binding_.output_addresses));
  if (replayed) return {};
  return graphs->run_and_capture(graph, runtime, binding_.input_addresses, binding_.output_addresses,
                                 [&](CapturedGraphs::Memory& memory) -> Result<bool> {
                                   TENON_TRY(run_between(*runtime, &memory));
                                   return outputs_.written_directly();
                                 });
}

Status SessionRun::run_between(PlanRuntime& runtime, CapturedGraphs::Memory* used_memory) {
  std::unique_ptr<RunStreams> streams = devices_.streams().take();
  const std::span<const EpId> active = devices_.active();
  for (EpId ep : active) {
    if (caller_stream_ != nullptr && devices_.can_use_stream(resources_.spaces->table(), ep, *caller_stream_))
      streams->borrow(ep, *caller_stream_);
  }
  PlanExecutor executor(resources_, info_);
  executor.use_streams(*streams);
  executor.used_memory = used_memory;
  if (may_return_early_) executor.allow_early_return();
  Status status;
  const auto keep = [&status](Status next, std::string_view what, std::string_view ep_name) {
    if (status.ok() && !next.ok()) {
      status = std::move(next).with_context(format("while the EP \"{}\" {}", ep_name, what));
    }
  };
  size_t started = 0;
  for (; started < active.size() && status.ok(); ++started) {
    DeviceProvider& provider = devices_.provider(active[started]);
    keep(provider.run_start(info_), "starts a run", provider.name());
    if (!status.ok()) break;
  }
  // Within the EPs' run, so that they know its deadline.
  if (status.ok() && caller_stream_ != nullptr) status = wait_for_caller_stream(runtime);
  if (status.ok()) status = run_plan(runtime, executor);
  Status ended = streams->end_run();
  if (status.ok()) status = std::move(ended);
  for (size_t i = 0; i < started; ++i) {
    DeviceProvider& provider = devices_.provider(active[i]);
    keep(provider.run_end(info_, /*synchronize=*/!executor.returned_early()), "ends a run", provider.name());
  }
  // A stream on which something failed is not used again.
  const bool clean = status.ok() || !streams->used_own();
  streams->give_back();
  if (clean) devices_.streams().give(std::move(streams));
  return status;
}

Status SessionRun::wait_for_caller_stream(const PlanRuntime& runtime) const {
  const bool enqueued = runtime.only_stream != kCpuEp &&
                        devices_.can_use_stream(resources_.spaces->table(), runtime.only_stream, *caller_stream_);
  return enqueued ? Status() : wait_for_stream(*caller_stream_);
}

}  // namespace tenon
