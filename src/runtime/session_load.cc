#include <algorithm>
#include <atomic>
#include <utility>

#include "base/env.h"
#include "base/trace.h"
#include "graph/early_copies.h"
#include "graph/mapped_file.h"
#include "graph/schema.h"
#include "graph/symbols.h"
#include "graph/unused_values.h"
#include "ops/sequence.h"
#include "ops/shape_inference.h"
#include "plan/evaluate.h"
#include "plan/expand.h"
#include "plan/fold.h"
#include "plan/pass_table.h"
#include "plan/widened.h"
#include "runtime/control_flow.h"
#include "runtime/dump.h"
#include "runtime/session_config.h"
#include "runtime/session_impl.h"

namespace tenon {

namespace {

constexpr int64_t kMaxEnvironmentThreads = 1024;

// Inputs that are declared as scalars have any shape, and so have outputs, which follow them.
void forget_scalars(Graph& graph) {
  for (const std::vector<ValueId>* ids : {&graph.inputs, &graph.outputs})
    for (ValueId id : *ids)
      if (Value& value = graph.value(id);
          value.is_tensor && value.has_rank && value.dims.empty() && value.constant == nullptr)
        value.has_rank = false;
}

}  // namespace

int32_t SessionImpl::next_number() {
  static std::atomic<int32_t> sessions{0};
  return sessions.fetch_add(1, std::memory_order_relaxed) + 1;
}

Result<std::shared_ptr<Session>> SessionImpl::create(Result<Model> model, const SessionOptions& options,
                                                     int32_t number) {
  if (!model.ok()) return std::move(model).status();
  TraceSpan span("load", "prepare", number);
  if (span) span.args().add("graph", model->graph.name).add("nodes", model->graph.nodes.size());
  std::shared_ptr<SessionImpl> session(new SessionImpl(number));
  session->model_ = std::move(model).value();
  TENON_TRY_ASSIGN(session->options_, checked_options(options));
  TENON_TRY(session->prepare());
  return std::shared_ptr<Session>(std::move(session));
}

Status SessionImpl::prepare() {
  Graph& graph = model_.graph;
  TENON_TRY(fix_dims(model_, options_));
  if (options_.scalars_of_any_shape) forget_scalars(graph);
  separate_symbols(graph);
  const std::vector<Value> declared = declared_outputs(graph);
  {
    const TraceSpan span("load", "infer shapes");
    TENON_TRY(infer_shapes(graph));
    TENON_TRY_ASSIGN(const bool expanded, expand_sequence_maps(graph));
    if (expanded) TENON_TRY(infer_shapes(graph));
  }
  if (options_.eps.empty()) {
    TENON_TRY(eps_.make(options_));
  } else {
    // EPs are shown all weights. Making one may take as long as copying these: CUDA makes its context.
    const EarlyCopies copies(graph);
    TENON_TRY(eps_.make(options_));
  }
  TENON_TRY(eps_.infer_types(graph));
  TENON_TRY(check_element_types(graph));
  TENON_TRY(check_output_types(graph, declared));
  description_ = describe_model(model_, declared);  // before EPs take constants away
  trail_ = NodeTrail(graph);
  // A node whose outputs nobody reads needs no kernel: exporters leave such nodes. No EP is asked for it either.
  graph.remove_dead_nodes();
  TENON_TRY_ASSIGN(fold_pool_, ThreadPool::create({.threads = 1}));
  TENON_TRY(fold_for_eps());
  TENON_TRY(eps_.partition(model_, copies_));
  trail_.mark(graph);
  TENON_TRY(expand_operators(graph));
  devices_.emplace(eps_.devices());
  TENON_TRY_ASSIGN(SpaceTable table, eps_.start(options_, graph, *devices_));
  spaces_ = SessionSpaces(std::move(table));
  for (DeviceAllocator* allocator : spaces_.table().allocators) arenas_.add(allocator);
  // Expansions may leave others.
  graph.remove_dead_nodes();
  trail_.after("", graph);
  {
    const TraceSpan span("load", "check nodes");
    TENON_TRY(eps_.check_nodes(graph));
  }
  TENON_TRY(make_pools());
  TENON_TRY(run_passes_of_load());
  folded_ = clear_unused_values(graph);
  // What EPs hold of the graph has its ids.
  if (options_.eps.empty()) trail_.renumber(drop_unused_values(graph));
  TENON_TRY_ASSIGN(wanted_, wanted_spaces(graph, eps_, spaces_.table()));
  make_plans();
  return {};
}

Status SessionImpl::make_pools() {
  const TraceSpan span("load", "start threads");
  pool_ = options_.pool;
  if (pool_ == nullptr) {
    int64_t threads = options_.threads;
    if (threads == 0) {
      TENON_TRY_ASSIGN(threads, env_integer(Env::kThreads, 0, kMaxEnvironmentThreads));
    }
    TENON_TRY_ASSIGN(pool_,
                     make_thread_pool({.threads = static_cast<int>(threads), .allow_spinning = options_.allow_spinning},
                                      options_.custom_threads));
  }
  return {};
}

Status SessionImpl::fold_for_eps() {
  constexpr std::string_view kPass = "fold";
  const auto& skipped = options_.disabled_passes;
  // Without weights an EP takes constants from the model's files, which have none that were computed.
  const auto weightless = options_.config.find("ep.enable_weightless_mode");
  if (options_.eps.empty() || std::find(skipped.begin(), skipped.end(), kPass) != skipped.end() ||
      (weightless != options_.config.end() && weightless->second != "0"))
    return {};
  const TraceSpan span("load", "fold for EPs");
  TENON_TRY(fold_before_claims(model_.graph, make_evaluator(eps_.cpu(), *fold_pool_)));
  trail_.folded(kPass, model_.graph);
  return {};
}

Status SessionImpl::run_passes_of_load() {
  Graph& graph = model_.graph;
  PassOptions passes;
  passes.evaluate = make_evaluator(eps_.cpu(), *fold_pool_);
  passes.skip = options_.disabled_passes;
  passes.observe = dump_observer("load");
  passes.trail = &trail_;
  TENON_TRY(run_passes(graph, PassPhase::kLoad, passes));
  // Most weights of 16 bits have been widened, and nothing reads them from the file again.
  for (const Value& value : graph.values)
    if (value.constant && value.constant->in_file && is_16_bit_float(value.type))
      drop_file_pages({value.constant->data.stored(), value.constant->size_bytes});
  TENON_TRY(eps_.prepare_region_bodies(graph, passes));
  TENON_TRY(eps_.check_control_flow_nodes(graph));
  return eps_.check_fallback(graph, options_);
}

void SessionImpl::make_plans() {
  weights_.share(std::static_pointer_cast<SharedPackings>(options_.packed_weights), packed_folder_of(options_.config));
  PlannerOptions options{.provider = &eps_.host(),
                         .devices = eps_.devices(),
                         .pool = pool_.get(),
                         .fold_pool = fold_pool_.get(),
                         .weights = &weights_,
                         .winograd = options_.winograd,
                         .disabled_passes = options_.disabled_passes};
  options.keep_text = [this](const std::string& text) { return texts_.keep(text); };
  options.budget = std::make_shared<PlanBudget>(options_.plan_cache_bytes);
  subgraphs_ = std::make_unique<ControlFlowKernels>(options, arenas_, texts_);
  for (DeviceProvider* provider : eps_.devices()) provider->set_subgraphs(*subgraphs_);
  options.subgraphs = subgraphs_.get();
  options.observe = dump_observer("plan");
  if (spaces_.has_devices()) {
    options.spaces = &spaces_.table();
    options.ep_names = {"cpu"};
    for (const std::string& name : eps_.names()) options.ep_names.push_back(name);
  }
  constants_.emplace(spaces_, eps_.devices(), texts_, copies_);
  plans_.emplace(model_.graph, description_.outputs, std::move(options), *constants_, options_.plan_cache_size);
  resources_ = {.pool = pool_.get(),
                .arenas = &arenas_,
                .spaces = &spaces_,
                .texts = &texts_,
                .rests = &*plans_,
                .unfinished = &devices_->unfinished()};
}

}  // namespace tenon
