#include <bit>
#include <new>
#include <optional>
#include <stdexcept>
#include <utility>

#include <tenon/plan_report.h>

#include "base/config_keys.h"
#include "base/deadline.h"
#include "base/log.h"
#include "base/version.h"
#include "device/copy.h"
#include "plan/bind_shapes.h"
#include "runtime/binding_impl.h"
#include "runtime/dump.h"
#include "runtime/node_observer.h"
#include "runtime/runner.h"
#include "runtime/session_impl.h"

namespace tenon {

namespace {

// The one place where the standard library's exceptions end: they only say that there is no memory.
template <typename Function>
auto without_exceptions(const Function& function) -> decltype(function()) {
  try {
    return function();
  } catch (const std::bad_alloc&) {
    return resource_exhausted("There is not enough memory.");
  } catch (const std::length_error&) {
    return resource_exhausted("A size exceeds what memory can hold.");
  }
}

Status wait_for_fences(std::span<const Fence> fences, int64_t timeout_ns, const Deadline& run_deadline) {
  Deadline deadline = Deadline::after(timeout_ns);
  if (run_deadline.at_ns() < deadline.at_ns()) deadline = run_deadline;
  for (const Fence& fence : fences) {
    TENON_TRACE(kSync, "The run waits for {} to reach {}.", fence.timeline->name(), fence.value);
    Status status = fence.wait(deadline.never() ? kWaitForever : deadline.remaining_ns());
    if (status.ok()) continue;
    const bool is_late = status.code() == StatusCode::kCancelled && run_deadline.passed();
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

Result<ReaderReplacements> replacements_of(const SessionOptions& options) {
  ReaderReplacements replacements;
  for (const auto& [name, tensor] : options.initializers) {
    TENON_INVALID_IF(!tensor.defined(), "The tensor for initializer \"{}\" is undefined.", name);
    TENON_UNSUPPORTED_IF(!devices_are_memory_compatible(tensor.space(), MemorySpace{}),
                         "The tensor for initializer \"{}\" lives in {}, which the host cannot read.", name,
                         tensor.space().to_string());
    auto constant = std::make_shared<Constant>();
    constant->type = tensor.type();
    constant->shape = tensor.shape();
    constant->data = tensor.data_as<std::byte>();
    constant->size_bytes = tensor.size_bytes();
    constant->owner = tensor.owner();
    replacements.initializers.emplace(name, std::move(constant));
  }
  replacements.files = options.external_files;
  replacements.initializers_as_inputs = options.initializers_as_inputs;
  replacements.all_used = !options.ignore_unknown_names;
  return replacements;
}

// enter_run and leave_run in pairs.
class InRun {
 public:
  explicit InRun(ThreadPool& pool) : pool_(pool) { pool_.enter_run(); }
  ~InRun() { pool_.leave_run(); }
  InRun(const InRun&) = delete;
  InRun& operator=(const InRun&) = delete;

 private:
  ThreadPool& pool_;
};

// The times of the kernels of one run, for RunOptions::node_times.
class NodeTimer final : public NodeObserver {
 public:
  explicit NodeTimer(NodeObserver* next) : next_(next) {}
  const std::vector<NodeTime>& times() const { return run_; }

  void ran(const NodeRun& node) override {
    add_node_time(run_, {.name = std::string(node.name),
                         .op_type = std::string(node.op_type),
                         .node = node.index,
                         .begin_ns = node.begin_ns,
                         .duration_ns = node.end_ns - node.begin_ns});
    if (next_ != nullptr) next_->ran(node);
  }

 private:
  NodeObserver* const next_;
  std::vector<NodeTime> run_;
};

}  // namespace

std::string_view version() { return project_version(); }

Result<std::shared_ptr<Session>> Session::load(const std::string& path, const SessionOptions& options) {
  return without_exceptions([&]() -> Result<std::shared_ptr<Session>> {
    TENON_TRY_ASSIGN(const ReaderReplacements replacements, replacements_of(options));
    TENON_TRY_ASSIGN(Model model, read_model_file(path, {}, replacements));
    if (options.eps.empty()) return SessionImpl::create(std::move(model), options);
    // EPs look for files beside the model (Graph_GetModelPath).
    SessionOptions named = options;
    named.config.emplace(kModelPathKey, path);
    return SessionImpl::create(std::move(model), named);
  });
}

Result<std::shared_ptr<Session>> Session::load_from_bytes(std::span<const std::byte> bytes,
                                                          const SessionOptions& options,
                                                          const std::string& base_directory) {
  return without_exceptions([&]() -> Result<std::shared_ptr<Session>> {
    TENON_TRY_ASSIGN(const ReaderReplacements replacements, replacements_of(options));
    TENON_TRY_ASSIGN(Model model, read_model_bytes(bytes, base_directory, {}, replacements));
    return SessionImpl::create(std::move(model), options);
  });
}

Result<Binding> SessionImpl::make_binding() {
  return without_exceptions([&]() -> Result<Binding> {
    auto self = std::static_pointer_cast<SessionImpl>(shared_from_this());
    return Binding(std::make_unique<BindingImpl>(std::move(self)));
  });
}

Status SessionImpl::run(Binding& binding, const RunOptions& options) {
  TENON_INVALID_IF(binding.impl_ == nullptr, "The binding was moved from.");
  TENON_INVALID_IF(binding.impl_->session.get() != this, "The binding belongs to another session.");
  Status status = without_exceptions([&] {
    if (options.node_times == nullptr) return run_bound(*binding.impl_, options);
    NodeTimer timer(NodeObserver::current());
    const NodeObserver::Scope observed(&timer);
    Status ran = run_bound(*binding.impl_, options);
    options.node_times->insert(options.node_times->end(), timer.times().begin(), timer.times().end());
    return ran;
  });
  if (!status.ok()) {
    for (BindingImpl::Output& output : binding.impl_->outputs) output.ready = false;
  }
  return status;
}

Status SessionImpl::run_bound(BindingImpl& binding, const RunOptions& options) {
  RunReport* report = options.report;
  if (report != nullptr) {
    report->copies.records.clear();
    report->wait_ns = report->infer_ns = report->signal_ns = 0;
    report->planned = false;
  }
  // Until the call is known to be valid, the fences stay as they are.
  TENON_TRY(check_fences(options.waits, "RunOptions::waits"));
  TENON_TRY(check_fences(options.signals, "RunOptions::signals"));
  TENON_TRY(binding.begin_run());
  if (!binding.checked || binding.checked_key != binding.key) {
    TENON_TRY(check_shapes(binding.shapes));
    binding.checked_key = binding.key;
    binding.checked = true;
  }
  const int64_t start_ns = monotonic_ns();
  bool planned = false;
  CopyLedger* ledger = report != nullptr ? &report->copies : nullptr;
  Runner runner(*this, binding, ledger, options);
  std::shared_ptr<PlanRuntime> plan;
  {
    const InRun in_run(*pool_);
    Result<std::shared_ptr<PlanRuntime>> found = find_plan(
        binding.key, binding.shapes, binding.spaces, options_.disallow_copies || options.disallow_copies, planned);
    if (!found.ok()) {
      // Shapes that the model cannot take are the caller's; running out of memory is not.
      if (found.status().code() != StatusCode::kInvalidArgument) poison_fences(options.signals, found.status());
      return std::move(found).status();
    }
    plan = std::move(found).value();
    if (ledger != nullptr) take_once_copies(*ledger);
    TENON_TRY(runner.prepare(*plan, binding.input_addresses));
  }
  const int64_t planned_ns = monotonic_ns();
  runner.pass_fences(*plan, binding.input_addresses, options);
  Status status =
      runner.passed_waits() ? Status() : wait_for_fences(options.waits, options.timeout_ns, runner.deadline());
  const int64_t waited_ns = monotonic_ns();
  if (status.ok()) {
    const InRun in_run(*pool_);
    status = runner.run(plan, binding.input_addresses);
  }
  const int64_t ran_ns = monotonic_ns();
  if (status.ok() && !runner.passed_signals()) status = signal_fences(options.signals);
  if (!status.ok()) poison_fences(options.signals, status);
  if (report != nullptr) {
    take_once_copies(report->copies);  // of what was planned on the way
    report->wait_ns = waited_ns - planned_ns;
    report->infer_ns = (planned_ns - start_ns) + (ran_ns - waited_ns);
    report->signal_ns = monotonic_ns() - ran_ns;
    report->planned = planned || runner.planned();
  }
  return status;
}

Status SessionImpl::check_shapes(std::span<const Shape> shapes) const {
  return check_input_shapes(model_.graph, shapes);
}

// As ONNX Runtime: the model's word on an output's shape is a hint, and a run that differs goes on.
void SessionImpl::warn_of_output_shapes(const Plan& plan) const {
  for (const PlanOutput& output : plan.outputs) {
    const ValueInfo& info = outputs_[static_cast<size_t>(output.slot)];
    if (output.spec.dynamic || !info.has_shape) continue;
    const Shape& shape = output.spec.shape;
    bool agrees = info.dims.size() == static_cast<size_t>(shape.rank());
    for (int axis = 0; axis < shape.rank() && agrees; ++axis) {
      const int64_t dim = info.dims[static_cast<size_t>(axis)];
      agrees = dim < 0 || dim == shape[axis];
    }
    if (!agrees)
      log_warning("plan", "Output \"{}\" has the shape {}, and the model declares {}.", info.name, shape.to_string(),
                  info.to_string());
  }
}

Result<std::shared_ptr<PlanRuntime>> SessionImpl::make_plan(std::span<const Shape> shapes, const BoundSpaces& spaces,
                                                            const PlannerOptions& options) {
  std::vector<int32_t> slots(model_.graph.outputs.size());
  for (size_t i = 0; i < slots.size(); ++i) slots[i] = static_cast<int32_t>(i);
  TENON_TRY_ASSIGN(std::shared_ptr<Plan> plan, build_plan(model_.graph, shapes, slots, options, spaces));
  for (const PlanStep& step : plan->steps) {
    if (!step.copy) continue;
    TENON_TRACE(kPlan, "\"{}\" will be copied from {} to {}: {}.", step.copy->what,
                plan->spaces[static_cast<size_t>(step.copy->source)].to_string(),
                plan->spaces[static_cast<size_t>(step.copy->target)].to_string(), copy_reason_name(step.copy->reason));
  }
  warn_of_output_shapes(*plan);
  TENON_TRACE(kPlan, "A plan is made for a new signature: {} steps, arena {} bytes.", plan->steps.size(),
              plan->arena_bytes);
  if (dump_enabled()) dump_text("plan", plan->to_text());
  return std::make_shared<PlanRuntime>(std::move(plan), options_.plan_cache_size);
}

Result<std::shared_ptr<PlanRuntime>> SessionImpl::find_plan(const SignatureKey& key, std::span<const Shape> shapes,
                                                            const BoundSpaces& spaces, bool disallow_copies,
                                                            bool& planned) {
  {
    auto plans = plans_->lock();
    if (std::shared_ptr<PlanRuntime> found = plans->find(key)) return found;
  }
  TENON_TRY_ASSIGN(std::shared_ptr<PlanRuntime> made, make_plan(shapes, spaces, planner_options(disallow_copies)));
  planned = true;
  bool full = false;
  {
    auto plans = plans_->lock();
    full = plans->size() >= options_.plan_cache_size;
    made = plans->insert(key, std::move(made));
  }
  // A plan went: its arena may have been the largest.
  if (full) {
    for (ArenaPool& arenas : arenas_) arenas.trim();
  }
  return made;
}

Result<BoundSpaces> SessionImpl::bound_spaces(const std::map<std::string, MemorySpace>& named) const {
  BoundSpaces bound;
  bound.inputs.resize(inputs_.size());
  bound.outputs.assign(outputs_.size(), MemorySpace{});
  for (const auto& [name, given] : named) {
    TENON_INVALID_IF(given.alignment != 0 && !std::has_single_bit(given.alignment),
                     "The alignment of \"{}\" is {}, which is no power of two.", name, given.alignment);
    const int32_t index = spaces_.find(given);
    TENON_UNSUPPORTED_IF(index < 0, "\"{}\" cannot live in {}, which no EP of the session can address.", name,
                         given.to_string());
    MemorySpace space = given;
    // As the space's allocator gives it.
    if (space.alignment == 0) space.alignment = spaces_.at(index).alignment;
    bool known = false;
    for (size_t i = 0; i < inputs_.size(); ++i) {
      if (inputs_[i].name != name) continue;
      bound.inputs[i] = space;
      known = true;
    }
    for (size_t i = 0; i < outputs_.size(); ++i) {
      if (outputs_[i].name != name) continue;
      bound.outputs[i] = space;
      known = true;
    }
    if (!known) return not_found("The model has no input or output \"{}\".", name);
  }
  return bound;
}

Result<PlanReport> SessionImpl::report_for(const std::map<std::string, Shape>& shapes,
                                           const std::map<std::string, MemorySpace>& spaces, bool strict) {
  TENON_TRY_ASSIGN(const BoundSpaces bound, bound_spaces(spaces));
  for (const auto& [name, shape] : shapes) {
    bool known = false;
    for (const ValueInfo& info : inputs_) known = known || info.name == name;
    if (!known) return not_found("The model has no input \"{}\".", name);
  }
  std::vector<Shape> all;
  for (const ValueInfo& info : inputs_) {
    if (const auto given = shapes.find(info.name); given != shapes.end()) {
      all.push_back(stands_for_scalar(info, given->second) ? Shape() : given->second);
      continue;
    }
    Shape shape;
    for (int64_t dim : info.dims) {
      TENON_INVALID_IF(dim < 0, "The shape of input \"{}\" is not given, and the model leaves it open ({}).", info.name,
                       info.to_string());
      shape.push_back(dim);
    }
    TENON_INVALID_IF(!info.has_shape, "The shape of input \"{}\" is not given, and the model declares none.",
                     info.name);
    all.push_back(shape);
  }
  TENON_TRY(check_shapes(all));
  ExplainedCopies copies{.ledger = load_copies_, .open = {}};
  TENON_TRY_ASSIGN(const std::shared_ptr<PlanRuntime> made, make_plan(all, bound, explaining_options(copies.ledger)));
  const Plan& plan = *made->plan;
  PlanReport report = report_plan(plan, bound.outputs, planner_options_.keep_text, std::move(copies));
  if (strict) {
    TENON_TRY(refuse_copies(plan, outputs_));
    if (const auto& records = report.copies.ledger.records; !records.empty()) {
      const CopyRecord& first = records.front();
      return copy_disallowed(first.what, first.source, first.target, first.reason);
    }
  }
  return report;
}

Result<PlanReport> SessionImpl::plan_report(const std::map<std::string, Shape>& shapes,
                                            const std::map<std::string, MemorySpace>& spaces) {
  return without_exceptions([&] { return report_for(shapes, spaces, options_.disallow_copies); });
}

Result<ExplainedCopies> SessionImpl::explain_copies(const std::map<std::string, Shape>& shapes,
                                                    const std::map<std::string, MemorySpace>& spaces) {
  return without_exceptions([&]() -> Result<ExplainedCopies> {
    TENON_TRY_ASSIGN(PlanReport report, report_for(shapes, spaces, /*strict=*/false));
    return std::move(report.copies);
  });
}

Result<std::string> Session::explain(const std::map<std::string, Shape>& shapes,
                                     const std::map<std::string, MemorySpace>& spaces) {
  TENON_TRY_ASSIGN(const PlanReport report, plan_report(shapes, spaces));
  return report.to_text();
}

Result<std::vector<Tensor>> Session::run(std::span<const std::pair<std::string, Tensor>> inputs,
                                         const RunOptions& options) {
  TENON_TRY_ASSIGN(Binding binding, make_binding());
  for (const auto& [name, tensor] : inputs) TENON_TRY(binding.bind_input(name, tensor));
  // The caller reads them: an output of a device's EP comes to host memory.
  for (size_t i = 0; i < outputs().size(); ++i) TENON_TRY(binding.bind_output_auto(i, MemorySpace()));
  TENON_TRY(run(binding, options));
  std::vector<Tensor> results;
  for (size_t i = 0; i < outputs().size(); ++i) results.push_back(binding.output(i));
  return results;
}

}  // namespace tenon
