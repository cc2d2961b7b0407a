#include <utility>

#include "base/env.h"
#include "ep/cpu/cpu_provider.h"
#include "graph/shape_inference.h"
#include "plan/bind_shapes.h"
#include "plan/control_flow.h"
#include "plan/evaluate.h"
#include "plan/pass_table.h"
#include "runtime/control_flow.h"
#include "runtime/dump.h"
#include "runtime/host_operators.h"
#include "runtime/session_impl.h"

namespace tenon {

namespace {

constexpr int64_t kMaxEnvironmentThreads = 1024;

ValueInfo info_of(const Value& value) {
  ValueInfo info;
  info.name = value.name;
  info.type = value.type;
  info.has_shape = value.has_rank;
  if (!value.has_rank) return info;
  for (const Dim& dim : value.dims) {
    info.dims.push_back(dim.known() ? dim.value : -1);
    info.dim_names.push_back(dim.symbol);
  }
  return info;
}

// A view of an initializer; undefined for strings.
Tensor default_of(const Value& value) {
  if (value.constant == nullptr || value.constant->type == DataType::kString) return {};
  const Constant& constant = *value.constant;
  Result<Tensor> view = Tensor::view(constant.type, constant.shape, const_cast<std::byte*>(constant.data),
                                     constant.size_bytes, constant.owner);
  return view.ok() ? view->as_read_only() : Tensor();
}

}  // namespace

Result<std::shared_ptr<Session>> SessionImpl::create(Result<Model> model, const SessionOptions& options) {
  if (!model.ok()) return std::move(model).status();
  TENON_INVALID_IF(options.plan_cache_size == 0, "SessionOptions::plan_cache_size is 0; at least 1 plan is kept.");
  TENON_INVALID_IF(options.threads < 0, "SessionOptions::threads is {}; 0 means as many as there are CPUs.",
                   options.threads);
  for (const auto* dims : {&options.dims, &options.dims_by_denotation}) {
    for (const auto& [name, value] : *dims) {
      TENON_INVALID_IF(value < 0, "SessionOptions::dims fixes \"{}\" to {}, which is negative.", name, value);
    }
  }
  std::shared_ptr<SessionImpl> session(new SessionImpl());
  session->model_ = std::move(model).value();
  TENON_TRY(session->prepare(options));
  return std::shared_ptr<Session>(std::move(session));
}

Status SessionImpl::prepare(const SessionOptions& options) {
  options_ = options;
  provider_ = cpu::make_cpu_provider();
  host_provider_ = std::make_unique<HostOperators>(*provider_, planner_options_.devices);
  planner_options_.provider = host_provider_.get();
  fix_dims();
  Graph& graph = model_.graph;
  TENON_TRY(infer_shapes(graph));
  TENON_TRY(make_device_providers());
  TENON_TRY(infer_provider_types());
  describe_values();  // before EPs take constants away
  TENON_TRY(partition());
  for (DeviceAllocator* allocator : places_.allocators) arenas_.emplace_back(allocator);
  TENON_TRY(check_nodes());

  pool_ = options.pool;
  if (pool_ == nullptr) {
    int64_t threads = options.threads;
    if (threads == 0) {
      TENON_TRY_ASSIGN(threads, env_integer(Env::kThreads, 0, kMaxEnvironmentThreads));
    }
    TENON_TRY_ASSIGN(pool_,
                     make_thread_pool({.threads = static_cast<int>(threads), .allow_spinning = options.allow_spinning},
                                      options.custom_threads));
  }
  TENON_TRY_ASSIGN(fold_pool_, ThreadPool::create({.threads = 1}));
  PassOptions passes;
  passes.evaluate = make_evaluator(*provider_, *fold_pool_);
  passes.observe = dump_observer("load");
  TENON_TRY(run_passes(graph, PassPhase::kLoad, passes));
  TENON_TRY(prepare_region_bodies(passes));
  TENON_TRY(check_control_flow_nodes());
  TENON_TRY(describe_places());
  planner_options_.pool = pool_.get();
  planner_options_.fold_pool = fold_pool_.get();
  planner_options_.weights = &weights_;
  planner_options_.winograd = options.winograd;
  subgraphs_ = std::make_unique<ControlFlowKernels>(planner_options_, arenas_[0]);
  planner_options_.subgraphs = subgraphs_.get();
  for (const auto& provider : device_providers_) provider->set_subgraphs(*subgraphs_);
  planner_options_.observe = dump_observer("plan");
  plans_ = std::make_unique<Guarded<SignatureCache<PlanRuntime>>>(std::in_place, options.plan_cache_size);
  return {};
}

void SessionImpl::fix_dims() {
  for (const DimDenotation& denotation : model_.notes.denotations) {
    const auto fixed = options_.dims_by_denotation.find(denotation.text);
    if (fixed == options_.dims_by_denotation.end()) continue;
    std::vector<Dim>& dims = model_.graph.value(denotation.value).dims;
    if (denotation.axis < dims.size() && !dims[denotation.axis].known()) dims[denotation.axis] = Dim{fixed->second, {}};
  }
  if (options_.dims.empty()) return;
  for (Value& value : model_.graph.values) {
    for (Dim& dim : value.dims) {
      const auto fixed = dim.known() ? options_.dims.end() : options_.dims.find(dim.symbol);
      if (fixed != options_.dims.end()) dim = Dim{fixed->second, {}};
    }
  }
}

Status SessionImpl::check_nodes() const {
  const Graph& graph = model_.graph;
  for (ValueId id : graph.inputs) {
    const Value& value = graph.value(id);
    TENON_UNSUPPORTED_IF(!value.is_tensor, "Input \"{}\" is not a tensor; only tensors are supported.", value.name);
  }
  const Providers providers = planner_options_.providers();
  for (const Node& node : graph.nodes) {
    if (!is_control_flow(node)) TENON_TRY(providers.of(node).can_run(graph, node));
  }
  return {};
}

Status SessionImpl::prepare_region_bodies(const PassOptions& passes) {
  for (Node& region : model_.graph.nodes) {
    const int32_t number = provider_number(region);
    if (number == 0 || !device_provider(number).host_runs(region)) continue;
    for (Attribute& attribute : region.attributes) {
      if (!attribute.graph) continue;
      attribute.graph = std::make_shared<Graph>(*attribute.graph);
      for (Node& node : attribute.graph->nodes) {
        TENON_TRY_CONTEXT(run_subgraph_passes(node, PassPhase::kLoad, passes), "in {}", node.label(*attribute.graph));
      }
    }
  }
  return {};
}

Status SessionImpl::check_control_flow_nodes() const {
  for (const Node& node : model_.graph.nodes) {
    if (is_control_flow(node)) TENON_TRY(check_control_flow(model_.graph, node, *host_provider_));
    const int32_t number = provider_number(node);
    if (number == 0 || !device_providers_[static_cast<size_t>(number - 1)]->host_runs(node)) continue;
    const Graph& body = region_body(node);
    for (const Node& inner : body.nodes) TENON_TRY(check_control_flow(body, inner, *host_provider_));
  }
  return {};
}

void SessionImpl::describe_values() {
  for (ValueId id : model_.graph.inputs) inputs_.push_back(info_of(model_.graph.value(id)));
  for (ValueId id : model_.graph.outputs) outputs_.push_back(info_of(model_.graph.value(id)));
  const ModelInfo& info = model_.info;
  // Before IR 4 every initializer had to be listed, so that says nothing there.
  if (info.ir_version >= 4) {
    for (ValueId id : model_.notes.overridable) {
      const Value& value = model_.graph.value(id);
      overridable_.push_back(info_of(value));
      overridable_defaults_.push_back(default_of(value));
    }
  }
  metadata_ = {.producer_name = info.producer_name,
               .producer_version = info.producer_version,
               .domain = info.domain,
               .description = info.doc_string,
               .graph_name = model_.graph.name,
               .graph_description = model_.notes.doc_string,
               .version = info.model_version,
               .has_version = info.has_model_version,
               .custom = {info.metadata.begin(), info.metadata.end()}};
}

}  // namespace tenon
