#include "abi/run.h"

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <utility>

#include "abi/interop_api.h"
#include "abi/interop_cpu.h"
#include "abi/lora_adapter.h"
#include "abi/objects/run_options.h"
#include "abi/objects/slots.h"
#include "abi/objects/status.h"
#include "abi/objects/value_tensor.h"
#include "base/config_keys.h"
#include "base/deadline.h"
#include "ep/api/run_fences.h"

namespace tenon::abi {
namespace {

// A binding for one run, given back at its end with nothing in it that the program may want freed.
class BindingLease {
 public:
  explicit BindingLease(CoreSession& core, std::unique_ptr<RunBinding> run = nullptr)
      : core_(core), run_(std::move(run)) {}
  BindingLease(const BindingLease&) = delete;
  BindingLease& operator=(const BindingLease&) = delete;
  ~BindingLease() {
    if (run_ == nullptr) return;
    for (size_t i = 0; i < run_->inputs.size(); ++i)
      if (std::exchange(run_->inputs[i].owned, false)) (void)run_->binding.unbind_input(i);
    for (size_t i = 0; i < run_->outputs.size(); ++i)
      if (run_->outputs[i].owned) forget_output(i);
    core_.idle.give(std::move(run_));
  }

  OrtStatus* take() {
    run_ = core_.idle.take();
    if (run_ != nullptr) {
      ++run_->run;
      return nullptr;
    }
    Result<Binding> binding = make_unguarded_binding(core_);
    if (!binding.ok()) return to_ort(binding.status());
    run_ = std::make_unique<RunBinding>(*std::move(binding), core_.core->inputs().size(), core_.core->outputs().size());
    run_->run = 1;
    for (size_t i = 0; i < run_->outputs.size(); ++i) let_output_be_made(i);
    return nullptr;
  }

  RunBinding& run() { return *run_; }
  // To another lease of the same session.
  std::unique_ptr<RunBinding> hand_over() { return std::move(run_); }
  // Unbinds the program's tensors that only an earlier run bound as outputs: this run must not write them.
  void forget_other_outputs() {
    for (size_t i = 0; i < run_->outputs.size(); ++i)
      if (run_->outputs[i].program && run_->outputs[i].run != run_->run) forget_output(i);
  }

 private:
  // Where its EP makes it if the host reads there, else in host memory: without an IoBinding, that is what programs
  // expect of a run.
  void let_output_be_made(size_t index) {
    const MemorySpace host;
    const bool readable = devices_are_memory_compatible(core_.core->output_spaces()[index].space, host);
    (void)(readable ? run_->binding.bind_output_auto(index) : run_->binding.bind_output_auto(index, host));
  }
  void forget_output(size_t index) {
    let_output_be_made(index);
    run_->outputs[index].program = run_->outputs[index].owned = false;
  }

  CoreSession& core_;
  std::unique_ptr<RunBinding> run_;
};

OrtStatus* check_call(const RunCall& call) noexcept {
  for (size_t i = 0; i < call.inputs.size(); ++i) {
    if (call.input_names[i] == nullptr || *call.input_names[i] == '\0')
      return make_ort_status(ORT_INVALID_ARGUMENT, "input name cannot be empty");
    if (call.inputs[i] == nullptr)
      return ort_error(ORT_INVALID_ARGUMENT, "NULL input supplied for input {}", call.input_names[i]);
  }
  for (const char* name : call.output_names) {
    if (name == nullptr || *name == '\0') return make_ort_status(ORT_INVALID_ARGUMENT, "output name cannot be empty");
  }
  return nullptr;
}

bool overrides_initializer(const OrtSession& session, const RunCall& call) {
  const std::span<const ValueInfo> overridable = session.core().overridable_initializers();
  if (overridable.empty()) [[likely]]
    return false;
  for (const char* name : call.input_names)
    if (find_value(overridable, name, 0) != kNotFound) return true;
  return false;
}

ScalarFeed scalar_feed(const OrtSession& session, const RunCall& call) {
  ScalarFeed feed = ScalarFeed::kScalars;
  const std::span<const ValueInfo> inputs = session.core().inputs();
  const std::span<const ValueInfo> overridable = session.core().overridable_initializers();
  for (size_t i = 0; i < call.inputs.size(); ++i) {
    if (const size_t index = find_value(inputs, call.input_names[i], i); index != kNotFound) {
      add_scalar_feed(inputs[index], *call.inputs[i], feed);
    } else if (const size_t other = find_value(overridable, call.input_names[i], 0); other != kNotFound) {
      add_scalar_feed(overridable[other], *call.inputs[i], feed);
    }
  }
  return feed;
}

OrtStatus* bind_inputs(const OrtSession& session, CoreSession& core, RunBinding& run, const RunCall& call) {
  const std::span<const ValueInfo> infos = core.core->inputs();
  for (size_t i = 0; i < call.inputs.size(); ++i) {
    const size_t index = find_value(infos, call.input_names[i], i);
    if (index == kNotFound) return ort_error(ORT_INVALID_ARGUMENT, "Invalid input name: {}", call.input_names[i]);
    if (OrtStatus* bad = check_feed(infos[index], *call.inputs[i])) return bad;
    if (OrtStatus* bad = bind_value(run.binding, infos[index], index, *call.inputs[i])) return bad;
    run.inputs[index].run = run.run;
    run.inputs[index].owned =
        call.inputs[i]->tensor.owner() != nullptr || needs_conversion(*call.inputs[i], infos[index].type);
  }
  for (size_t i = 0; i < infos.size(); ++i) {
    if (run.inputs[i].run == run.run) continue;
    const size_t fallback = find_value(session.core().overridable_initializers(), infos[i].name, 0);
    if (fallback == kNotFound) return ort_error(ORT_FAIL, "Missing Input: {}", infos[i].name);
    const Status bound = run.binding.bind_input(i, session.core().overridable_default(fallback));
    if (!bound.ok()) return to_ort(bound);
    run.inputs[i] = {.run = run.run, .program = true, .owned = true};
  }
  return nullptr;
}

OrtStatus* bind_outputs(CoreSession& core, RunBinding& run, const RunCall& call) {
  const std::span<const ValueInfo> infos = core.core->outputs();
  if (call.output_names.empty())
    return make_ort_status(ORT_INVALID_ARGUMENT, "At least one output should be requested.");
  for (size_t i = 0; i < call.output_names.size(); ++i) {
    const size_t index = find_value(infos, call.output_names[i], i);
    if (index == kNotFound) return ort_error(ORT_INVALID_ARGUMENT, "Invalid output name: {}", call.output_names[i]);
    const OrtValue* given = call.outputs[i];
    if (given == nullptr || given->kind == ONNX_TYPE_UNKNOWN) continue;
    if (OrtStatus* bad = check_fetch(infos[index], *given)) return bad;
    if (needs_conversion(*given, infos[index].type)) continue;  // filled after the run
    const Status bound = run.binding.bind_output(index, given->tensor);
    if (!bound.ok()) return to_ort(bound);
    run.outputs[index] = {.run = run.run, .program = true, .owned = given->tensor.owner() != nullptr};
  }
  return nullptr;
}

// New values for the outputs that the program left to us, all of them or none.
OrtStatus* fetch_outputs(CoreSession& core, RunBinding& run, const RunCall& call) {
  const std::span<const ValueInfo> infos = core.core->outputs();
  std::unique_ptr<OrtValue> first;
  std::vector<std::unique_ptr<OrtValue>> more;  // stays empty, and off the heap, for one output
  for (size_t i = 0; i < call.output_names.size(); ++i) {
    const size_t index = find_value(infos, call.output_names[i], i);
    const Tensor result = run.binding.output(index);
    OrtValue* given = call.outputs[i];
    if (given != nullptr && given->kind != ONNX_TYPE_UNKNOWN) {
      if (OrtStatus* bad = fill_given(infos[index], result, *given)) return bad;
      if (i > 0) more.push_back(nullptr);
      continue;
    }
    auto made = std::make_unique<OrtValue>(make_value(result));
    if (i == 0) {
      first = std::move(made);
    } else {
      more.push_back(std::move(made));
    }
  }
  for (size_t i = 0; i < call.output_names.size(); ++i) {
    std::unique_ptr<OrtValue>& made = i == 0 ? first : more[i - 1];
    if (made == nullptr) continue;
    if (call.outputs[i] != nullptr) {
      *call.outputs[i] = std::move(*made);  // a value without anything in it: the program's own
    } else {
      call.outputs[i] = made.release();
    }
  }
  return nullptr;
}

// The fences that a run's entries name by the program's handles (ep/api/run_fences.h).
Status read_fences(const OrtRunOptions& options, const char* key, std::vector<Fence>* fences) {
  const char* text = options.config_entries.find(key);
  if (text == nullptr) [[likely]]
    return {};
  TENON_TRY_ASSIGN(const std::vector<RunFence> entries, parse_run_fences(key, text));
  for (const RunFence& entry : entries) {
    Result<Fence> fence = fence_of_handle(reinterpret_cast<uintptr_t>(entry.semaphore), entry.value);
    if (!fence.ok()) return std::move(fence).status().with_context(format("while reading run entry \"{}\"", key));
    fences->push_back(*std::move(fence));
  }
  return {};
}

bool disallows_copies(const OrtRunOptions* options) {
  const char* value = options != nullptr ? options->config_entries.find(kDisallowCopiesKey) : nullptr;
  return value != nullptr && parse_flag(value).value_or(false);
}

// Of the entry "tenon.timeout_ms", whose text was checked when it was added; 0 is no limit.
int64_t run_timeout_ns(const OrtRunOptions* options) {
  constexpr int64_t kNsAMs = 1'000'000;
  const char* text = options != nullptr ? options->config_entries.find(kTimeoutKey) : nullptr;
  const int64_t timeout_ms = text != nullptr ? std::strtoll(text, nullptr, 10) : 0;
  if (timeout_ms <= 0) return kWaitForever;
  return timeout_ms > INT64_MAX / kNsAMs ? INT64_MAX : timeout_ms * kNsAMs;
}

bool has_fences(const OrtRunOptions& options) {
  return !options.waits.empty() || !options.signals.empty() || options.config_entries.find(kRunWaitsKey) != nullptr ||
         options.config_entries.find(kRunSignalsKey) != nullptr;
}

// Anything but "0" disables, as in the reference.
bool waits_for_devices(const OrtRunOptions& options) {
  const char* disabled = options.config_entries.find("disable_synchronize_execution_providers");
  return disabled == nullptr || std::string_view(disabled) == "0";
}

// The stream of the CPU device that the run is left to; null when the run is done before it returns. What a program has
// not given memory for, or what a profile measures, cannot be left to later; nor can another EP's part.
CpuStream* stream_of_queued_run(const OrtSession& session, const CoreSession& core, const RunCall& call) {
  const OrtRunOptions* options = call.options;
  if (options == nullptr || options->sync_stream == nullptr || waits_for_devices(*options)) [[likely]]
    return nullptr;
  if (session.profile != nullptr || options->profiling || session.custom_ops != nullptr) return nullptr;
  if (has_fences(*options)) return nullptr;
  for (const OrtValue* given : call.outputs)
    if (given == nullptr || !given->is_tensor() || given->is_string_tensor()) return nullptr;
  for (const EpAssignment& part : core.core->assignments())
    if (part.ep_name != "CPUExecutionProvider") return nullptr;
  return CpuStream::from(*options->sync_stream);
}

// `copies` may be null.
Status run_counted(Session& session, Binding& binding, const RunOptions& options, CopyRecords* copies) {
  if (copies == nullptr) [[likely]]
    return session.run(binding, options);
  RunReport report;
  report.timed = false;
  RunOptions counted = options;
  counted.report = &report;
  Status status = session.run(binding, counted);
  copies->add(report.copies);
  return status;
}

// Puts the run behind what the stream has; its failure is the stream's. The program keeps the memory of its tensors
// until then.
OrtStatus* queue_run(OrtSession& session, const std::shared_ptr<CoreSession>& core, BindingLease& lease,
                     const RunCall& call, CpuStream& stream) {
  struct QueuedRun {
    QueuedRun(std::shared_ptr<OrtEnv> env_of_session, std::shared_ptr<CoreSession> of, std::unique_ptr<RunBinding> run)
        : env(std::move(env_of_session)), core(std::move(of)), lease(*core, std::move(run)) {}
    std::shared_ptr<OrtEnv> env;
    std::shared_ptr<CoreSession> core;
    BindingLease lease;
    bool disallow_copies = false;
    int64_t run_timeout_ns = kWaitForever;        // from when the queue comes to it
    std::vector<std::pair<size_t, Shape>> given;  // outputs, with the shapes of the program's values
    std::shared_ptr<CopyRecords> copies;          // may be null
  };
  auto queued = std::make_shared<QueuedRun>(session.env, core, lease.hand_over());
  queued->disallow_copies = disallows_copies(call.options);
  queued->run_timeout_ns = run_timeout_ns(call.options);
  queued->copies = call.options->copies;
  for (size_t i = 0; i < call.output_names.size(); ++i)
    queued->given.emplace_back(find_value(core->core->outputs(), call.output_names[i], i),
                               call.outputs[i]->tensor.shape());
  return to_ort(stream.queue().enqueue([queued]() -> Status {
    Session& session = *queued->core->core;
    Binding& binding = queued->lease.run().binding;
    TENON_TRY(run_counted(session, binding,
                          {.run_timeout_ns = queued->run_timeout_ns, .disallow_copies = queued->disallow_copies},
                          queued->copies.get()));
    for (const auto& [index, given] : queued->given) {
      const Shape shape = binding.output(index).shape();
      TENON_INVALID_IF(!(shape == given), "The OrtValue for output \"{}\" has shape {}, and the run gives {}.",
                       session.outputs()[index].name, given.to_string(), shape.to_string());
    }
    return Status();
  }));
}

// A run with options, a profile or a trace.
OrtStatus* run_with_options(OrtSession& session, CoreSession& core, Binding& binding, const OrtRunOptions* options) {
  RunOptions run;
  const bool profiled = session.profile != nullptr || (options != nullptr && options->profiling);
  if (options != nullptr) {
    if (options->terminate.load(std::memory_order_relaxed)) [[unlikely]]
      return make_ort_status(ORT_FAIL, "Exiting due to terminate flag being set to true.");
    if (const int level = options->log_severity_level; level < -1 || level > ORT_LOGGING_LEVEL_FATAL) [[unlikely]]
      return ort_error(ORT_FAIL, "Invalid run log severity level. Not a valid onnxruntime::logging::Severity value: {}",
                       level);
    run.cancel = &options->terminate;
    run.native_options = options;
    run.synchronize = waits_for_devices(*options);
  }
  std::optional<ProfiledRun> profile;
  if (profiled) [[unlikely]]
    profile.emplace(session.profile.get(),
                    options != nullptr && options->profiling ? &options->profile_prefix : nullptr);
  Status status;
  std::vector<Fence> waits, signals;
  if (options != nullptr) {
    waits = options->waits;
    signals = options->signals;
  }
  if (options != nullptr && !options->config_entries.entries().empty()) {
    status = read_fences(*options, kRunWaitsKey, &waits);
    if (status.ok()) status = read_fences(*options, kRunSignalsKey, &signals);
    run.disallow_copies = disallows_copies(options);
    run.run_timeout_ns = run_timeout_ns(options);
  }
  run.waits = waits;
  run.signals = signals;
  if (status.ok() && options != nullptr && options->sync_stream != nullptr) {
    if (CpuStream::from(*options->sync_stream) != nullptr)
      status = wait_for_stream(*options->sync_stream, &options->terminate, Deadline::after(run.run_timeout_ns));
    else
      run.stream = options->sync_stream->stream;
  }
  if (status.ok()) {
    const NodeObserver::Scope observed(profile ? &*profile : nullptr);
    const TraceSink::Scope traced(profile ? &*profile : nullptr);
    status = run_counted(*core.core, binding, run, options != nullptr ? options->copies.get() : nullptr);
  }
  if (profile) [[unlikely]]
    status = profile->end(status);
  if (status.ok()) [[likely]]
    return nullptr;
  const bool terminated = options != nullptr && options->terminate.load(std::memory_order_relaxed);
  if (terminated && status.code() == StatusCode::kCancelled && !remembered_code(status))
    return make_ort_status(ORT_FAIL, "Exiting due to terminate flag being set to true.");
  return to_ort(status, run_code(status));
}

OrtStatus* run_core(OrtSession& session, const std::shared_ptr<CoreSession>& core, const RunCall& call) {
  BindingLease lease(*core);
  if (OrtStatus* bad = lease.take()) return bad;
  RunBinding& run = lease.run();
  if (OrtStatus* bad = bind_inputs(session, *core, run, call)) return bad;
  if (OrtStatus* bad = bind_outputs(*core, run, call)) return bad;
  lease.forget_other_outputs();
  if (CpuStream* stream = stream_of_queued_run(session, *core, call)) [[unlikely]]
    return queue_run(session, core, lease, call, *stream);
  if (OrtStatus* bad = run_binding(session, *core, run.binding, call.options)) return bad;
  return fetch_outputs(*core, run, call);
}

OrtStatus* run_checked(OrtSession& session, const RunCall& call) {
  uint8_t kind = overrides_initializer(session, call) ? kInitializersAsInputs : kMainCore;
  const ScalarFeed scalars = may_load_for_scalars(session) ? scalar_feed(session, call) : ScalarFeed::kScalars;
  if (scalars != ScalarFeed::kScalars) kind |= kScalarsOfAnyShape;
  if (kind == kMainCore) [[likely]]
    return run_core(session, session.main, call);
  std::shared_ptr<CoreSession> core;
  OrtStatus* bad = other_core(session, kind, &core);
  if (bad == nullptr) bad = run_core(session, core, call);
  if (bad == nullptr || scalars != ScalarFeed::kOneElement) return bad;
  // An operator may take a scalar alone, where the reference's takes one element of any rank.
  release_status(bad);
  if (kind == kScalarsOfAnyShape) return run_core(session, session.main, call);
  bad = other_core(session, kInitializersAsInputs, &core);
  return bad != nullptr ? bad : run_core(session, core, call);
}

// Parameters of adapters are fed after the program's inputs: of two values for one input the last one counts, as in the
// reference.
OrtStatus* run_with_adapters(OrtSession& session, RunCall call) {
  std::vector<const char*> names(call.input_names.begin(), call.input_names.end());
  std::vector<const OrtValue*> values(call.inputs.begin(), call.inputs.end());
  add_adapters(*call.options, names, values);
  call.input_names = names;
  call.inputs = values;
  return run_checked(session, call);
}

}  // namespace

bool may_load_for_scalars(const OrtSession& session) noexcept {
  return session.has_scalar_inputs && session.load && !session.scalars_only.load(std::memory_order_relaxed);
}

OrtStatus* other_core(OrtSession& session, uint8_t kind, std::shared_ptr<CoreSession>* out) {
  auto others = session.others.lock();
  std::shared_ptr<CoreSession>& core = (*others)[kind];
  if (core == nullptr) {
    SessionOptions options = session.core_options;
    options.initializers_as_inputs = (kind & kInitializersAsInputs) != 0;
    options.scalars_of_any_shape = (kind & kScalarsOfAnyShape) != 0;
    Result<std::shared_ptr<Session>> made = session.load(options);
    if (!made.ok()) {
      if (options.scalars_of_any_shape) session.scalars_only = true;  // not to be tried in every run
      return to_ort(made.status());
    }
    core = std::make_shared<CoreSession>(*std::move(made));
  }
  *out = core;
  return nullptr;
}

OrtStatus* fill_given(const ValueInfo& info, const Tensor& result, OrtValue& given) {
  if (!holds_addresses(result.type())) return check_fetched(info, given, result.shape());
  if (given.is_string_tensor()) {
    if (OrtStatus* bad = check_fetched(info, given, result.shape())) return bad;
    *given.strings = std::move(*make_string_value(result).strings);
  } else {
    given = make_value(result);
  }
  return nullptr;
}

OrtStatus* bind_value(Binding& binding, const ValueInfo& info, size_t index, const OrtValue& value) {
  if (!needs_conversion(value, info.type)) [[likely]] {
    const Status bound = binding.bind_input(index, value.tensor);
    return bound.ok() ? nullptr : to_ort(bound);
  }
  Result<Tensor> tensor = to_tensor(value, /*as_object=*/info.object != nullptr);
  if (!tensor.ok()) return to_ort(std::move(tensor).status().with_context(format("for input \"{}\"", info.name)));
  return to_ort(binding.bind_input(index, *std::move(tensor)));
}

OrtStatus* run_binding(OrtSession& session, CoreSession& core, Binding& binding,
                       const OrtRunOptions* options) noexcept {
  return guarded([&]() -> OrtStatus* {
    const bool observed = session.profile != nullptr || NodeObserver::current() != nullptr || trace_enabled();
    if (options != nullptr || observed) [[unlikely]]
      return run_with_options(session, core, binding, options);
    const Status status = core.core->run(binding, RunOptions());
    if (status.ok()) [[likely]]
      return nullptr;
    return to_ort(status, run_code(status));
  });
}

OrtStatus* run_session(OrtSession& session, const RunCall& call) noexcept {
  if (OrtStatus* bad = check_call(call)) return bad;
  return guarded([&]() -> OrtStatus* {
    if (call.options != nullptr && !call.options->adapters.empty()) [[unlikely]]
      return run_with_adapters(session, call);
    return run_checked(session, call);
  });
}

OrtStatus* ort_api::Run(OrtSession* session, const OrtRunOptions* run_options, const char* const* input_names,
                        const OrtValue* const* inputs, size_t input_len, const char* const* output_names,
                        size_t output_names_len, OrtValue** outputs) noexcept {
  if (session == nullptr || (input_len > 0 && (input_names == nullptr || inputs == nullptr)) ||
      (output_names_len > 0 && (output_names == nullptr || outputs == nullptr))) [[unlikely]]
    return make_ort_status(ORT_INVALID_ARGUMENT, "Run needs a session, and an array wherever there is a count.");
  return run_session(*session, {.options = run_options,
                                .input_names = {input_names, input_len},
                                .inputs = {inputs, input_len},
                                .output_names = {output_names, output_names_len},
                                .outputs = {outputs, output_names_len}});
}

OrtStatus* ort_api::RunAsync(OrtSession* session, const OrtRunOptions* run_options, const char* const* input_names,
                             const OrtValue* const* input, size_t input_len, const char* const* output_names,
                             size_t output_names_len, OrtValue** output, RunAsyncCallbackFn run_async_callback,
                             void* user_data) noexcept {
  if (session == nullptr || run_async_callback == nullptr ||
      (input_len > 0 && (input_names == nullptr || input == nullptr)) ||
      (output_names_len > 0 && (output_names == nullptr || output == nullptr)))
    return make_ort_status(ORT_INVALID_ARGUMENT,
                           "RunAsync needs a session, a callback, and an array wherever there is a count.");
  return guarded([&]() -> OrtStatus* {
    // The program keeps its arrays, names and values until the callback, as the reference asks.
    const RunCall call{.options = run_options,
                       .input_names = {input_names, input_len},
                       .inputs = {input, input_len},
                       .output_names = {output_names, output_names_len},
                       .outputs = {output, output_names_len}};
    return to_ort(session->executor.post([session, call, run_async_callback, user_data] {
      OrtStatus* status = run_session(*session, call);
      run_async_callback(user_data, status == nullptr ? call.outputs.data() : nullptr,
                         status == nullptr ? call.outputs.size() : 0, status);
    }));
  });
}

}  // namespace tenon::abi
