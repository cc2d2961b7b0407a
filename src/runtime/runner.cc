#include "runtime/runner.h"

#include <algorithm>
#include <cstring>
#include <mutex>
#include <utility>

#include "base/log.h"
#include "device/copy.h"
#include "device/memory_space.h"
#include "runtime/memory.h"

namespace tenon {

namespace {

bool ranges_overlap(const void* a, size_t a_bytes, const void* b, size_t b_bytes) {
  const auto x = reinterpret_cast<uintptr_t>(a);
  const auto y = reinterpret_cast<uintptr_t>(b);
  return a_bytes > 0 && b_bytes > 0 && x < y + b_bytes && y < x + a_bytes;
}

// On the host, for all that is on a stream now.
Status wait_for(DeviceStream& stream) {
  TENON_TRACE(kSync, "The host waits for the caller's stream {}.", stream.id());
  TENON_TRY_ASSIGN(const std::unique_ptr<DeviceNotification> reached, stream.create_notification());
  if (reached == nullptr) return device_error("The caller's stream {} made no notification.", stream.id());
  TENON_TRY(reached->activate());
  TENON_TRY_CONTEXT(reached->wait_on_host(), "while waiting for the caller's stream {}", stream.id());
  return {};
}

// Arenas that a stream has outgrown and may still use; with more, the run waits for the stream.
constexpr size_t kMaxOutgrownArenas = 4;

}  // namespace

// A run state and an arena, given back at the end of the scope.
struct Runner::Lease {
  Lease(Runner& runner, PlanRuntime& plan_runtime) : session(runner.session_), runtime(plan_runtime) {}
  Lease(const Lease&) = delete;
  Lease& operator=(const Lease&) = delete;
  ~Lease() {
    if (!ends.empty()) leave_to_stream();
    for (size_t space = 0; space < outgrown.size(); ++space) {
      for (Arena& arena : outgrown[space]) give_back(space, std::move(arena));
    }
    if (state == nullptr) return;
    for (size_t space = 0; space < state->held.size(); ++space) {
      give_back(space, std::exchange(state->held[space], {}));
    }
    if (spoiled) state->drop_handles();
    auto idle = runtime.idle_states.lock();
    idle->push_back(std::move(state));
  }

  // Prefers the state that `hint` points to: its pointers are most likely right.
  Status take(const RunState* hint) {
    {
      auto idle = runtime.idle_states.lock();
      if (!idle->empty()) {
        auto best = std::find_if(idle->begin(), idle->end(), [&](const auto& one) { return one.get() == hint; });
        if (best == idle->end()) best = std::prev(idle->end());
        state = std::move(*best);
        if (best != std::prev(idle->end())) *best = std::move(idle->back());
        idle->pop_back();
      }
    }
    if (state == nullptr) state = std::make_unique<RunState>(*runtime.plan, session.pool());
    const std::vector<size_t>& sizes = runtime.plan->arenas;
    for (size_t space = 0; space < sizes.size(); ++space) {
      if (space < outgrown.size() && take_outgrown(space, sizes[space])) continue;
      TENON_TRY_ASSIGN(state->held[space], session.arenas(space).acquire(sizes[space], state->arena(space)));
    }
    return runtime.plan->handle_blocks.empty() ? Status() : state->hold_handles(session.spaces());
  }

  // What a stream may still use is never used again.
  void give_back(size_t space, Arena arena) const {
    if (!spoiled) session.arenas(space).release(std::move(arena));
  }

  void leave_to_stream() {
    outgrown.resize(session.spaces().spaces.size());
    for (size_t space = 0; state != nullptr && space < outgrown.size(); ++space) {
      Arena arena = std::exchange(state->held[space], {});
      if (arena.memory != nullptr) outgrown[space].push_back(std::move(arena));
    }
    session.unfinished_runs().put(
        {.stream_id = stream_id, .ends = std::move(ends), .arenas = std::exchange(outgrown, {})});
  }

  // The stream's last run worked there, and this one comes after it.
  bool take_outgrown(size_t space, size_t size_bytes) {
    std::vector<Arena>& arenas = outgrown[space];
    const auto found =
        std::find_if(arenas.begin(), arenas.end(), [&](const Arena& arena) { return arena.size_bytes >= size_bytes; });
    if (size_bytes == 0 || found == arenas.end()) return false;
    state->held[space] = std::move(*found);
    arenas.erase(found);
    return true;
  }

  struct Redirect {
    size_t output;  // of plan.outputs
    std::shared_ptr<std::byte> memory;
  };

  SessionImpl& session;
  PlanRuntime& runtime;
  std::unique_ptr<RunState> state;
  std::vector<Redirect> redirects;  // outputs that are written elsewhere first
  bool spoiled = false;             // the work on the memory may not be over
  // Memory of earlier runs on the stream, by space. Until this run has been waited for, it is the stream's, up to
  // `ends`; so is the run's own when it returns early.
  std::vector<std::vector<Arena>> outgrown;
  std::vector<std::unique_ptr<DeviceNotification>> ends;
  uint64_t stream_id = 0;
};

Status Runner::prepare(const PlanRuntime& runtime, std::span<void* const> inputs) {
  const Plan& plan = *runtime.plan;
  for (const PlanOutput& output : plan.outputs) {
    if (output.spec.dynamic) continue;
    TENON_TRY(
        binding_.prepare_output(static_cast<size_t>(output.slot), output.spec.type, output.spec.shape, output.space));
  }
  TENON_TRY(check_outputs_apart(plan));
  return check_copies(plan, inputs);
}

// How far a tensor reaches from its address: a handle is next to nothing.
size_t Runner::extent(int32_t space, size_t size_bytes) const {
  const bool handle = space > 0 && session_.spaces().handles[static_cast<size_t>(space)];
  return handle ? std::min<size_t>(size_bytes, 1) : size_bytes;
}

size_t Runner::extent(const Tensor& tensor) const {
  if (!session_.has_devices()) return tensor.size_bytes();
  return extent(session_.spaces().find(tensor.space()), tensor.size_bytes());
}

Status Runner::check_outputs_apart(const Plan& plan) const {
  for (const PlanOutput& output : plan.outputs) {
    const auto slot = static_cast<size_t>(output.slot);
    if (!binding_.outputs[slot].ready) continue;
    const Tensor& mine = binding_.outputs[slot].result;
    for (size_t other = 0; other < binding_.outputs.size(); ++other) {
      if (other == slot || !binding_.outputs[other].ready) continue;
      const Tensor& theirs = binding_.outputs[other].result;
      TENON_INVALID_IF(ranges_overlap(mine.data(), extent(mine), theirs.data(), extent(theirs)),
                       "The tensors bound to outputs \"{}\" and \"{}\" overlap in memory.",
                       session_.outputs()[slot].name, session_.outputs()[other].name);
    }
  }
  return {};
}

namespace {

// A kernel is asked when its output lies over its input, and not before: a device's may have to be compiled for that.
bool runs_in_place(const Plan& plan, const PlanOutput& output, const SharedMemory& shared) {
  const Kernel& kernel = *plan.steps[static_cast<size_t>(output.first_write)].kernel;
  return std::all_of(shared.in_place.begin(), shared.in_place.end(), [&](const std::pair<int32_t, int32_t>& pair) {
    return kernel.may_run_in_place(static_cast<size_t>(pair.first), static_cast<size_t>(pair.second));
  });
}

}  // namespace

const PlanInput* Runner::overlapped_input(const Plan& plan, const PlanOutput& output,
                                          std::span<void* const> inputs) const {
  const void* target = binding_.output_addresses[static_cast<size_t>(output.slot)];
  const size_t target_bytes = output.spec.size_bytes();
  // An output that is only copied to at the end is written after all steps, and shares what it likes.
  for (size_t i = 0; i < output.shared.size(); ++i) {
    const PlanInput& input = plan.inputs[i];
    const SharedMemory& shared = output.shared[i];
    if (shared.kind == SharedMemory::Kind::kAnything ||
        !ranges_overlap(inputs[i], extent(input.space, input.spec.size_bytes()), target,
                        extent(output.space, target_bytes)))
      continue;
    const bool same = inputs[i] == target && input.spec.size_bytes() == target_bytes;
    if (same && shared.kind == SharedMemory::Kind::kExactly && runs_in_place(plan, output, shared)) continue;
    return &input;
  }
  return nullptr;
}

namespace {

Status refuse_copy_step(const Plan& plan, const PlanStep& step) {
  return copy_disallowed(step.copy->what, plan.spaces[static_cast<size_t>(step.copy->source)],
                         plan.spaces[static_cast<size_t>(step.copy->target)], step.copy->reason);
}

bool moves_bytes(const PlanStep& step) { return step.copy && step.copy->spec.size_bytes() > 0; }

// Of an output whose size only a run knows, too.
bool moves_bytes(const Plan& plan, const PlanCopy& copy) {
  const auto output = std::find_if(plan.outputs.begin(), plan.outputs.end(),
                                   [&](const PlanOutput& one) { return one.slot == copy.output; });
  return output == plan.outputs.end() || output->spec.dynamic || output->spec.size_bytes() > 0;
}

Status refuse_output_copy(const std::string& output, const PlanCopy& copy) {
  return invalid_argument("Output \"{}\" would have to be copied ({}), and tenon.disallow_copies is set.", output,
                          copy_reason_name(copy.reason));
}

}  // namespace

Status refuse_copies(const Plan& plan, std::span<const ValueInfo> outputs) {
  for (const PlanStep& step : plan.steps) {
    if (moves_bytes(step)) return refuse_copy_step(plan, step);
  }
  for (const PlanCopy& copy : plan.copies) {
    if (moves_bytes(plan, copy)) return refuse_output_copy(outputs[static_cast<size_t>(copy.output)].name, copy);
  }
  return {};
}

Status Runner::disallowed(const Plan& plan, const PlanStep& step, std::span<void* const> inputs) const {
  Status refused = refuse_copy_step(plan, step);
  if (step.copy->reason != CopyReason::kAlignment) return refused;
  const Location& from = step.inputs[0];
  const Location& to = step.outputs[0];
  if (from.home == Home::kInput) {
    return invalid_argument("{} Input \"{}\" begins at {}, which is no multiple of the {} bytes that its reader takes.",
                            refused.message(), plan.inputs[static_cast<size_t>(from.index)].name,
                            inputs[static_cast<size_t>(from.index)],
                            plan.spaces[static_cast<size_t>(step.copy->target)].alignment);
  }
  if (to.home == Home::kOutput) {
    const auto slot = static_cast<size_t>(to.index);
    return invalid_argument("{} Output \"{}\" begins at {}, which is no multiple of the {} bytes that its maker takes.",
                            refused.message(), session_.outputs()[slot].name, binding_.output_addresses[slot],
                            plan.spaces[static_cast<size_t>(step.copy->source)].alignment);
  }
  return refused;
}

Status Runner::check_copies(const Plan& plan, std::span<void* const> inputs) const {
  const bool strict = info_.disallow_copies;
  for (const PlanStep& step : plan.steps) {
    if (strict && moves_bytes(step)) return disallowed(plan, step, inputs);
  }
  for (const PlanCopy& copy : plan.copies) {
    const auto slot = static_cast<size_t>(copy.output);
    const bool in_place =
        copy.source.home == Home::kInput && binding_.outputs[slot].ready &&
        static_cast<std::byte*>(inputs[static_cast<size_t>(copy.source.index)]) + copy.source.offset_bytes ==
            binding_.output_addresses[slot];
    if (strict && !in_place && moves_bytes(plan, copy)) return refuse_output_copy(session_.outputs()[slot].name, copy);
    if (in_place) continue;
    for (size_t i = 0; i < plan.inputs.size(); ++i) {
      const PlanInput& input = plan.inputs[i];
      if (input.last_read != kAtEnd || !binding_.outputs[slot].ready) continue;
      const Tensor& target = binding_.outputs[slot].result;
      TENON_INVALID_IF(
          ranges_overlap(inputs[i], extent(input.space, input.spec.size_bytes()), target.data(), extent(target)),
          "The tensor bound to output \"{}\" overlaps input \"{}\", which is still needed when the output is copied.",
          session_.outputs()[slot].name, input.name);
    }
  }
  for (const PlanOutput& output : plan.outputs) {
    if (!strict || output.spec.dynamic || output.first_write == kAtEnd) continue;
    if (const PlanInput* input = overlapped_input(plan, output, inputs)) {
      return invalid_argument(
          "The tensor bound to output \"{}\" overlaps input \"{}\", which is read after the output is written, so it "
          "would have to be copied ({}), and tenon.disallow_copies is set.",
          output.name, input->name, copy_reason_name(CopyReason::kOverlap));
    }
  }
  return {};
}

Status Runner::redirect_overlaps(const Plan& plan, std::span<void* const> inputs, Lease& lease) {
  for (size_t i = 0; i < plan.outputs.size(); ++i) {
    const PlanOutput& output = plan.outputs[i];
    if (output.spec.dynamic || output.first_write == kAtEnd) continue;
    if (overlapped_input(plan, output, inputs) == nullptr) continue;
    TENON_TRY_ASSIGN(std::shared_ptr<std::byte> memory,
                     session_.allocate_bytes_in(output.space, output.spec.size_bytes()));
    binding_.output_addresses[static_cast<size_t>(output.slot)] = memory.get();
    lease.redirects.push_back({i, std::move(memory)});
  }
  return {};
}

void Runner::pass_fences(const PlanRuntime& runtime, std::span<void* const> inputs, const RunOptions& options) {
  if (options.waits.empty() && options.signals.empty()) [[likely]]
    return;
  // Nothing but kernels on one stream of one EP, so that what the EP orders is the whole run.
  const Plan& plan = *runtime.plan;
  const std::span<const int32_t> active = session_.active_providers();
  if (runtime.only_stream <= 0 || active.size() != 1 || active[0] != runtime.only_stream) return;
  if (std::any_of(plan.steps.begin(), plan.steps.end(), [](const PlanStep& step) { return step.copy.has_value(); }))
    return;
  if (GraphCapture* capture = session_.graph_capture(); capture != nullptr && capture->graph_of(info_) >= 0) return;
  // What is written elsewhere first is copied by the host, before it may signal.
  for (const PlanOutput& output : plan.outputs) {
    if (output.spec.dynamic || output.first_write == kAtEnd || overlapped_input(plan, output, inputs) != nullptr)
      return;
  }
  const DeviceProvider& provider = session_.device_provider(active[0]);
  const auto takes = [&](std::span<const Fence> fences) {
    return std::all_of(fences.begin(), fences.end(), [&](const Fence& fence) { return provider.takes_fence(fence); });
  };
  // A device waits without a deadline, unless the EP finds one in the run's entries (tenon.timeout_ms).
  const bool knows_deadline = info_.deadline.never() || info_.native_options != nullptr;
  const bool waits = takes(options.waits) && options.timeout_ns == kWaitForever && knows_deadline;
  if (waits) info_.waits = options.waits;
  // Signals that come behind waits of the host are in order all the same.
  if (takes(options.signals)) {
    info_.signals = options.signals;
    may_return_early_ = !synchronize_;
  }
  info_.calls = plan.steps.size();
  TENON_TRACE(kSync, "The EP \"{}\" waits for {} and signals {} of the run's fences.", provider.name(),
              info_.waits.size(), info_.signals.size());
}

Status Runner::run(const std::shared_ptr<PlanRuntime>& runtime, std::span<void* const> inputs) {
  if (caller_stream_ != nullptr && !session_.has_devices()) TENON_TRY(wait_for(*caller_stream_));
  return session_.has_devices() ? run_on_devices(runtime, inputs) : run_plan(*runtime, inputs);
}

Status Runner::run_on_devices(const std::shared_ptr<PlanRuntime>& runtime, std::span<void* const> inputs) {
  std::unique_lock<std::mutex> alone;
  if (std::mutex* mutex = session_.one_run_at_a_time()) alone = std::unique_lock(*mutex);
  GraphCapture* capture = session_.graph_capture();
  const int32_t graph = capture != nullptr ? capture->graph_of(info_) : -1;
  if (graph < 0) return run_between(*runtime, inputs);
  // A graph belongs to the EP's own stream, and to memory that no later run may be in.
  may_return_early_ = false;
  if (caller_stream_ != nullptr) TENON_TRY(wait_for(*std::exchange(caller_stream_, nullptr)));
  TENON_TRY_ASSIGN(const bool replayed, replay(runtime, inputs, graph));
  return replayed ? Status() : run_and_capture(runtime, inputs, graph);
}

Result<bool> Runner::replay(const std::shared_ptr<PlanRuntime>& runtime, std::span<void* const> inputs, int32_t graph) {
  GraphCapture& capture = *session_.graph_capture();
  auto& graphs = session_.captured_graphs();
  const auto known = graphs.find(graph);
  TENON_TRY_ASSIGN(const bool captured, capture.is_captured(graph));
  if (!captured || known == graphs.end()) {
    if (known != graphs.end()) graphs.erase(known);
    return false;
  }
  const auto& [plan, inputs_before, outputs_before, memory] = known->second;
  const bool same = plan == runtime &&
                    std::equal(inputs.begin(), inputs.end(), inputs_before.begin(), inputs_before.end()) &&
                    std::equal(binding_.output_addresses.begin(), binding_.output_addresses.end(),
                               outputs_before.begin(), outputs_before.end());
  if (same) {
    TENON_TRY_CONTEXT(capture.replay(graph), "while replaying graph {}", graph);
    return true;
  }
  const Status released = capture.release(graph);
  if (!released.ok() && released.code() != StatusCode::kUnsupported) return released;
  graphs.erase(known);
  return false;
}

// The EP captures when it is warm, which may take it some runs; the reference makes them at once too.
Status Runner::run_and_capture(const std::shared_ptr<PlanRuntime>& runtime, std::span<void* const> inputs,
                               int32_t graph) {
  constexpr int kMostRuns = 8;
  const Plan& plan = *runtime->plan;
  // What the host does in a run, a replay would leave out.
  const bool whole = plan.copies.empty() && !plan.cut && plan.dynamic_values == 0 &&
                     std::all_of(plan.steps.begin(), plan.steps.end(), [&](const PlanStep& step) {
                       return !step.copy && step.provider == plan.steps[0].provider && step.provider > 0;
                     });
  GraphCapture& capture = *session_.graph_capture();
  TENON_TRY_ASSIGN(bool captured, capture.is_captured(graph));
  if (!whole || captured) return run_between(*runtime, inputs);
  for (int run = 0; run < kMostRuns && !captured; ++run) {
    SessionImpl::CapturedGraph made{runtime, {inputs.begin(), inputs.end()}, binding_.output_addresses, {}};
    used_memory_ = &made.memory;
    Status status = run_between(*runtime, inputs);
    used_memory_ = nullptr;
    TENON_TRY(std::move(status));
    TENON_TRY_ASSIGN(captured, capture.is_captured(graph));
    if (captured && binding_.output_addresses == made.outputs) session_.captured_graphs()[graph] = std::move(made);
  }
  if (!captured) log_warning("plan", "The EP has captured no graph in {} runs.", kMostRuns);
  return {};
}

Status Runner::run_between(PlanRuntime& runtime, std::span<void* const> inputs) {
  std::unique_ptr<RunStreams> streams = session_.take_streams();
  if (caller_stream_ != nullptr) borrow_stream(*streams);
  device_ = DeviceRun{&session_.spaces(), streams.get(), ledger_};
  const std::span<const int32_t> active = session_.active_providers();
  Status status;
  const auto keep = [&status](Status next, std::string_view what, std::string_view ep_name) {
    if (status.ok() && !next.ok()) {
      status = std::move(next).with_context(format("while the EP \"{}\" {}", ep_name, what));
    }
  };
  size_t started = 0;
  for (; started < active.size() && status.ok(); ++started) {
    DeviceProvider& provider = session_.device_provider(active[started]);
    keep(provider.run_start(info_), "starts a run", provider.name());
    if (!status.ok()) break;
  }
  // Within the EPs' run, so that they know its deadline.
  if (status.ok() && caller_stream_ != nullptr) status = wait_for_caller_stream(runtime);
  if (status.ok()) status = run_plan(runtime, inputs);
  Status ended = streams->end_run();
  if (status.ok()) status = std::move(ended);
  for (size_t i = 0; i < started; ++i) {
    DeviceProvider& provider = session_.device_provider(active[i]);
    keep(provider.run_end(info_, /*synchronize=*/!returned_early_), "ends a run", provider.name());
  }
  device_.reset();
  // A stream on which something failed is not used again.
  const bool clean = status.ok() || !streams->used_own();
  streams->give_back();
  if (clean) session_.give_streams(std::move(streams));
  return status;
}

Status Runner::wait_for_caller_stream(const PlanRuntime& runtime) {
  const bool enqueued = runtime.only_stream > 0 && session_.can_use_stream(runtime.only_stream, *caller_stream_);
  return enqueued ? Status() : wait_for(*caller_stream_);
}

void Runner::borrow_stream(RunStreams& streams) {
  for (int32_t number : session_.active_providers()) {
    if (session_.can_use_stream(number, *caller_stream_))
      streams.borrow(session_.device_provider(number), number, *caller_stream_);
  }
}

Status Runner::take_over(const PlanRuntime& runtime, Lease& lease) {
  for (int32_t number : session_.active_providers()) {
    const DeviceStream* stream = device_->streams->stream(number);
    if (stream == nullptr) continue;
    std::optional<UnfinishedRun> earlier = session_.unfinished_runs().take(stream->id());
    if (!earlier) continue;
    if (runtime.only_stream != number) {
      TENON_TRY(session_.finish(*std::move(earlier)));
      continue;
    }
    lease.stream_id = stream->id();
    lease.outgrown = std::move(earlier->arenas);
    lease.ends = std::move(earlier->ends);
  }
  return {};
}

bool Runner::returns_early(const PlanRuntime& runtime, const Lease& lease) const {
  if (!may_return_early_ || runtime.only_stream == 0 || !lease.redirects.empty()) return false;
  return std::all_of(lease.outgrown.begin(), lease.outgrown.end(),
                     [](const std::vector<Arena>& arenas) { return arenas.size() <= kMaxOutgrownArenas; });
}

Status Runner::run_plan(PlanRuntime& runtime, std::span<void* const> inputs) {
  const Plan& plan = *runtime.plan;
  Lease lease(*this, runtime);
  if (device_) TENON_TRY(take_over(runtime, lease));
  TENON_TRY(lease.take(binding_.last_state));
  TENON_TRY(redirect_overlaps(plan, inputs, lease));
  binding_.last_state = lease.state.get();
  lease.state->bind(inputs, binding_.output_addresses);
  if (used_memory_ != nullptr) {
    for (const Arena& arena : lease.state->held) used_memory_->push_back(arena.memory);
    used_memory_->insert(used_memory_->end(), lease.state->handles().begin(), lease.state->handles().end());
  }
  TENON_TRY(run_steps(runtime, lease));
  if (plan.cut) TENON_TRY(run_rest(runtime, *lease.state));
  return copy_out(plan, lease);
}

// Memory is given back, and read, only when no stream works on it any more, also after a failure.
Status Runner::run_steps(const PlanRuntime& runtime, Lease& lease) {
  const Plan& plan = *runtime.plan;
  if (!device_) return lease.state->run_steps(info_, nullptr);
  for (size_t i = 0; i < plan.uses_stream.size(); ++i) {
    if (!plan.uses_stream[i]) continue;
    const auto number = static_cast<int32_t>(i) + 1;
    TENON_TRY(device_->streams->prepare(session_.device_provider(number), number, plan.notifications[i]));
  }
  Status status = lease.state->run_steps(info_, &*device_);
  if (status.ok() && returns_early(runtime, lease)) {
    // It is the same stream's, which has been left behind that point.
    std::unique_ptr<DeviceNotification> earlier;
    if (!lease.ends.empty()) earlier = std::move(lease.ends.front());
    Result<std::unique_ptr<DeviceNotification>> end = device_->streams->leave(runtime.only_stream, std::move(earlier));
    std::erase(lease.ends, nullptr);
    if (end.ok()) {
      lease.ends.clear();
      lease.ends.push_back(std::move(end).value());
      lease.stream_id = device_->streams->stream(runtime.only_stream)->id();
      returned_early_ = true;
      return {};
    }
  }
  Status synchronized = device_->streams->synchronize();
  lease.ends.clear();
  lease.spoiled = !synchronized.ok();
  return status.ok() ? std::move(synchronized) : std::move(status);
}

Status Runner::copy_to_output(size_t slot, DataType type, const Shape& shape, void* source, int32_t space,
                              CopyReason reason) {
  TENON_TRY_ASSIGN(const size_t bytes, tensor_size_bytes(type, shape));
  MemorySpace from_space = session_.spaces().at(space);
  from_space.alignment = 0;
  TENON_TRY_ASSIGN(const Tensor from, Tensor::view(type, shape, source, bytes, nullptr, from_space));
  const Tensor& target = binding_.outputs[slot].result;
  const int32_t mover = session_.spaces().mover(from.space(), target.space());
  DataTransfer* transfer = mover > 0 ? session_.spaces().transfers[static_cast<size_t>(mover - 1)] : nullptr;
  return copy_tensor(target, from, reason, session_.outputs()[slot].name.c_str(), ledger_, transfer);
}

Status Runner::copy_dynamic(const Plan& plan, const PlanCopy& copy, RunState& state) {
  const auto slot = static_cast<size_t>(copy.output);
  const DynamicValue& value = state.dynamic_value(copy.source.index);
  const BindingImpl::Output& output = binding_.outputs[slot];
  // Memory of a device that nobody asked to be elsewhere becomes the output as it is.
  if (copy.space != 0 && output.is_auto && (output.auto_space < 0 || output.auto_space == copy.space)) {
    const size_t capacity = value.capacity_bytes;
    const Shape shape = value.shape;
    const DataType type = value.type;
    return binding_.adopt_output(slot, type, shape, state.take_dynamic(copy.source.index), capacity, copy.space);
  }
  int32_t space = copy.space;
  if (output.is_auto && output.auto_space >= 0) space = output.auto_space;
  TENON_TRY(binding_.prepare_output(slot, value.type, value.shape, space));
  TENON_TRY(check_outputs_apart(plan));
  return copy_to_output(slot, value.type, value.shape, value.memory.get(), copy.space, copy.reason);
}

Status Runner::copy_out(const Plan& plan, const Lease& lease) {
  for (const Lease::Redirect& redirect : lease.redirects) {
    const PlanOutput& output = plan.outputs[redirect.output];
    TENON_TRY(copy_to_output(static_cast<size_t>(output.slot), output.spec.type, output.spec.shape,
                             redirect.memory.get(), output.space, CopyReason::kOverlap));
  }
  for (const PlanCopy& copy : plan.copies) {
    if (copy.source.home == Home::kDynamic) {
      TENON_TRY(copy_dynamic(plan, copy, *lease.state));
      continue;
    }
    const auto slot = static_cast<size_t>(copy.output);
    const Tensor& target = binding_.outputs[slot].result;
    TENON_TRY(copy_to_output(slot, target.type(), target.shape(), lease.state->address(copy.source), copy.space,
                             copy.reason));
  }
  return {};
}

Result<ConstantRef> Runner::read_value(const CutValue& value, const Shape& shape, const RunState& state) {
  std::byte* data = nullptr;
  TENON_TRY_ASSIGN(ConstantRef constant, make_constant(value.spec.type, shape, &data));
  if (constant->size_bytes == 0) return constant;
  const MemorySpace& space = session_.spaces().at(value.space);
  if (host_can_address(space)) {
    // No transfer between tensors: the planner reads numbers, and keeps them as a constant.
    std::memcpy(data, state.address(value.location), constant->size_bytes);
    return constant;
  }
  MemorySpace from_space = space;
  from_space.alignment = 0;
  TENON_TRY_ASSIGN(const Tensor from, Tensor::view(value.spec.type, shape, state.address(value.location),
                                                   constant->size_bytes, nullptr, from_space));
  TENON_TRY_ASSIGN(const Tensor to, Tensor::view(value.spec.type, shape, data, constant->size_bytes));
  if (info_.disallow_copies) {
    return copy_disallowed(value.name.c_str(), from_space, to.space(), CopyReason::kNotCompatible)
        .with_context("while the host reads a value to plan the rest");
  }
  const int32_t mover = session_.spaces().mover(space, to.space());
  DataTransfer* transfer = mover > 0 ? session_.spaces().transfers[static_cast<size_t>(mover - 1)] : nullptr;
  TENON_TRY(copy_tensor(to, from, CopyReason::kNotCompatible, session_.keep_text(value.name), ledger_, transfer));
  return constant;
}

Result<std::shared_ptr<PlanRuntime>> Runner::find_rest(PlanRuntime& runtime, const RunState& state) {
  const PlanCut& cut = *runtime.plan->cut;
  SignatureKey key;
  std::vector<Shape> shapes;
  std::vector<ConstantRef> constants(cut.values.size());
  BoundSpaces spaces;
  for (size_t i = 0; i < cut.values.size(); ++i) {
    const CutValue& value = cut.values[i];
    const bool dynamic = value.location.home == Home::kDynamic;
    shapes.push_back(dynamic ? state.dynamic_value(value.location.index).shape : value.spec.shape);
    append_shape(key, shapes.back());
    if (!value.as_constant) {
      spaces.inputs.push_back(session_.spaces().at(value.space));
      MemorySpace& space = spaces.inputs.back();
      // A tensor made in a run is aligned as its space is; a caller's tensor may begin anywhere.
      if (value.location.home == Home::kInput) space.alignment = session_.alignment_of(state.address(value.location));
      key.push_back(session_.space_word(value.space, space.alignment));
      continue;
    }
    TENON_TRY_ASSIGN(constants[i], read_value(value, shapes.back(), state));
    append_bytes(key, {constants[i]->data, constants[i]->size_bytes});
  }
  {
    auto rests = runtime.rests.lock();
    if (std::shared_ptr<PlanRuntime> found = rests->find(key)) return found;
  }
  spaces.outputs = binding_.spaces.outputs;
  TENON_TRY_ASSIGN(std::shared_ptr<Plan> plan,
                   build_rest(cut, shapes, constants, session_.planner_options(info_.disallow_copies), spaces));
  planned_ = true;
  session_.warn_of_output_shapes(*plan);
  auto made = std::make_shared<PlanRuntime>(std::move(plan), session_.options().plan_cache_size);
  auto rests = runtime.rests.lock();
  return rests->insert(key, std::move(made));
}

Status Runner::run_rest(PlanRuntime& runtime, const RunState& state) {
  TENON_TRY_ASSIGN(const std::shared_ptr<PlanRuntime> rest, find_rest(runtime, state));
  std::vector<void*> inputs;
  for (const CutValue& value : runtime.plan->cut->values) {
    if (!value.as_constant) inputs.push_back(state.address(value.location));
  }
  TENON_TRY(prepare(*rest, inputs));
  return run_plan(*rest, inputs);
}

}  // namespace tenon
