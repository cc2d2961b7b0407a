#include <atomic>
#include <new>
#include <stdexcept>
#include <utility>

#include <tenon/object.h>
#include <tenon/plan_report.h>

#include "base/config_keys.h"
#include "base/trace.h"
#include "base/version.h"
#include "plan/bind_shapes.h"
#include "runtime/binding_impl.h"
#include "runtime/node_cost.h"
#include "runtime/node_observer.h"
#include "runtime/run_fences.h"
#include "runtime/session_impl.h"
#include "runtime/session_model.h"
#include "runtime/session_run.h"
#include "runtime/value_tap.h"

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
  const auto writes = options.config.find("ep.context_enable");
  replacements.for_writing = writes != options.config.end() && writes->second == "1";
  return replacements;
}

template <typename Read>
Result<Model> traced_read(const Read& read) {
  TraceSpan span("load", "read");
  TENON_TRY_ASSIGN(Model model, read());
  if (span) span.args().add("graph", model.graph.name).add("nodes", model.graph.nodes.size());
  return model;
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
    const NodeCost cost = node_cost(node);
    add_node_time(run_, {.name = std::string(node.name),
                         .op_type = std::string(node.op_type),
                         .node = node.index,
                         .begin_ns = node.begin_ns,
                         .duration_ns = node.end_ns - node.begin_ns,
                         .kernel = node.kernel,
                         .flops = cost.flops,
                         .bytes = cost.bytes});
    if (next_ != nullptr) next_->ran(node);
  }
  ValueTap* tap() override { return next_ != nullptr ? next_->tap() : nullptr; }

 private:
  NodeObserver* const next_;
  std::vector<NodeTime> run_;
};

}  // namespace

Result<Model> read_session_model(const std::string& path, const SessionOptions& options) {
  TENON_TRY_ASSIGN(const ReaderReplacements replacements, replacements_of(options));
  return traced_read([&] { return read_model_file(path, {}, replacements); });
}

Result<Model> read_session_model(std::span<const std::byte> bytes, const SessionOptions& options,
                                 const std::string& base_directory) {
  TENON_TRY_ASSIGN(const ReaderReplacements replacements, replacements_of(options));
  return traced_read([&] { return read_model_bytes(bytes, base_directory, {}, replacements); });
}

std::string_view version() { return project_version(); }

Result<std::shared_ptr<Session>> Session::load(const std::string& path, const SessionOptions& options) {
  return without_exceptions([&]() -> Result<std::shared_ptr<Session>> {
    const int32_t number = SessionImpl::next_number();
    TraceSpan span("load", "load", number);
    if (span) span.args().add("path", path);
    TENON_TRY_ASSIGN(Model model, read_session_model(path, options));
    if (options.eps.empty()) return SessionImpl::create(std::move(model), options, number);
    // EPs look for files beside the model (Graph_GetModelPath).
    SessionOptions named = options;
    named.config.emplace(kModelPathKey, path);
    return SessionImpl::create(std::move(model), named, number);
  });
}

Result<std::shared_ptr<Session>> Session::load_from_bytes(std::span<const std::byte> bytes,
                                                          const SessionOptions& options,
                                                          const std::string& base_directory) {
  return without_exceptions([&]() -> Result<std::shared_ptr<Session>> {
    const int32_t number = SessionImpl::next_number();
    TraceSpan span("load", "load", number);
    if (span) span.args().add("bytes", bytes.size());
    TENON_TRY_ASSIGN(Model model, read_session_model(bytes, options, base_directory));
    return SessionImpl::create(std::move(model), options, number);
  });
}

Result<Binding> SessionImpl::make_binding() {
  return without_exceptions([&]() -> Result<Binding> {
    auto self = std::static_pointer_cast<SessionImpl>(shared_from_this());
    return Binding(std::make_unique<BindingImpl>(std::move(self)));
  });
}

Result<Binding> SessionImpl::make_unguarded_binding() {
  TENON_TRY_ASSIGN(Binding binding, make_binding());
  binding.impl_->guarded = false;
  return binding;
}

Status SessionImpl::run(Binding& binding, const RunOptions& options) {
  TENON_INVALID_IF(binding.impl_ == nullptr, "The binding was moved from; the one that it was moved to is to be used.");
  TENON_INVALID_IF(binding.impl_->session.get() != this,
                   "The binding belongs to another session; make_binding() of this one makes its own.");
  const BindingTurn turn(*binding.impl_);
  TENON_TRY(turn.check());
  const bool observed = options.node_times != nullptr || options.values != nullptr;
  Status status = without_exceptions([&] {
    if (observed) [[unlikely]]
      return run_observed(*binding.impl_, options);
    return run_bound(*binding.impl_, options);
  });
  if (!status.ok()) [[unlikely]] {
    for (BoundOutput& output : binding.impl_->outputs) output.ready = false;
  }
  return status;
}

Status SessionImpl::run_observed(BindingImpl& binding, const RunOptions& options) {
  const auto run_timed = [&] {
    if (options.node_times == nullptr) return run_bound(binding, options);
    NodeTimer timer(NodeObserver::current());
    const NodeObserver::Scope observed(&timer);
    Status ran = run_bound(binding, options);
    options.node_times->insert(options.node_times->end(), timer.times().begin(), timer.times().end());
    return ran;
  };
  if (options.values == nullptr) return run_timed();
  ValueTap tap(*options.values, folded_);
  TappedRun tapped(tap, NodeObserver::current());
  const NodeObserver::Scope observed(&tapped);
  return run_timed();
}

Status SessionImpl::run_bound(BindingImpl& binding, const RunOptions& options) {
  if (trace_enabled()) [[unlikely]] {
    TraceSpan span("run", "run", number_);
    if (span) {
      static std::atomic<uint64_t> runs{0};
      span.args().add("graph", model_.graph.name).add("run", runs.fetch_add(1, std::memory_order_relaxed) + 1);
    }
    return run_plan_of(binding, options);
  }
  return run_plan_of(binding, options);
}

Status SessionImpl::find_plan(BindingImpl& binding, bool disallow_copies, RunReport* report) {
  bool made = false;
  TENON_TRY(binding.plan.find(binding.key, [&](CachedPlan& found) -> Status {
    TENON_TRY(check_input_shapes(model_.graph, binding.shapes));
    TENON_TRY(plans_->find(binding.key, binding.shapes, binding.spaces, disallow_copies, found));
    // A plan went: its arena may have been the largest.
    if (found.evicted) arenas_.trim();
    made = found.made;
    return {};
  }));
  if (report != nullptr) report->planned = made;
  return {};
}

Status SessionImpl::run_plan_of(BindingImpl& binding, const RunOptions& options) {
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
  const bool timed = report != nullptr && report->timed;
  const auto now_ns = [timed] { return timed ? monotonic_ns() : 0; };
  const int64_t start_ns = now_ns();
  const bool disallow_copies = options_.disallow_copies || options.disallow_copies;
  SessionRun run(resources_, *devices_, binding, report != nullptr ? &report->copies : nullptr, disallow_copies,
                 options);
  {
    const InRun in_run(*pool_);
    Status found = find_plan(binding, disallow_copies, report);
    if (!found.ok()) {
      // Shapes that the model cannot take are the caller's; running out of memory is not.
      if (found.code() != StatusCode::kInvalidArgument) poison_fences(options.signals, found);
      return found;
    }
    if (report != nullptr) copies_.take(report->copies);
    TENON_TRY(run.prepare(*binding.plan.runtime()));
  }
  const std::shared_ptr<PlanRuntime>& plan = binding.plan.runtime();
  const int64_t planned_ns = now_ns();
  Status status = run.wait(*plan);
  const int64_t waited_ns = now_ns();
  if (status.ok()) {
    const InRun in_run(*pool_);
    status = run.run(plan);
  }
  if (status.ok()) status = binding.keep_outputs();
  binding.objects.end_run();
  const int64_t ran_ns = now_ns();
  if (!options.signals.empty()) status = run.signal(std::move(status));
  if (report != nullptr) {
    copies_.take(report->copies);  // of what was planned on the way
    report->wait_ns = waited_ns - planned_ns;
    report->infer_ns = (planned_ns - start_ns) + (ran_ns - waited_ns);
    report->signal_ns = now_ns() - ran_ns;
    report->planned = report->planned || run.planned();
  }
  return status;
}

SessionImpl::~SessionImpl() { (void)synchronize(); }

Status SessionImpl::synchronize() { return devices_ ? devices_->unfinished().finish_all(arenas_) : Status(); }

Tensor SessionImpl::overridable_default(size_t index) const {
  return index < description_.overridable_defaults.size() ? description_.overridable_defaults[index] : Tensor();
}

Result<Tensor> SessionImpl::allocate(DataType type, const Shape& shape, const MemorySpace& space) {
  const SpaceId id = spaces_.table().find(space);
  TENON_INVALID_IF(!id.valid(), "The session has no allocator for {}.", space.to_string());
  return spaces_.allocate(id, type, shape);
}

SessionReporter SessionImpl::reporter() {
  return {.graph = model_.graph,
          .inputs = description_.inputs,
          .outputs = description_.outputs,
          .spaces = spaces_,
          .plans = *plans_,
          .copies = copies_,
          .trail = trail_,
          .texts = texts_};
}

Result<PlanReport> SessionImpl::plan_report(const std::map<std::string, Shape>& shapes,
                                            const std::map<std::string, MemorySpace>& spaces) {
  const TraceSpan span("plan", "report", number_);
  return without_exceptions([&] { return reporter().report(shapes, spaces, options_.disallow_copies); });
}

Result<ExplainedCopies> SessionImpl::explain_copies(const std::map<std::string, Shape>& shapes,
                                                    const std::map<std::string, MemorySpace>& spaces) {
  return without_exceptions([&]() -> Result<ExplainedCopies> {
    TENON_TRY_ASSIGN(PlanReport report, reporter().report(shapes, spaces, /*strict=*/false));
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
