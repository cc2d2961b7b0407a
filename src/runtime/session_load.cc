#include <utility>

#include "base/env.h"
#include "base/log.h"
#include "ep/cpu/cpu_provider.h"
#include "graph/symbols.h"
#include "ops/shape_inference.h"
#include "plan/bind_shapes.h"
#include "plan/control_flow.h"
#include "plan/evaluate.h"
#include "plan/pass_table.h"
#include "runtime/control_flow.h"
#include "runtime/dump.h"
#include "runtime/host_operators.h"
#include "runtime/model_summary.h"
#include "runtime/session_config.h"
#include "runtime/session_impl.h"

namespace tenon {

namespace {

constexpr int64_t kMaxEnvironmentThreads = 1024;

// The first outputs of an operator may be left out.
std::string_view first_output_name(const Graph& graph, const Node& node) {
  for (ValueId id : node.outputs)
    if (id != kNoValue && !graph.value(id).name.empty()) return graph.value(id).name;
  return "";
}

std::vector<Value> declared_outputs(const Graph& graph) {
  std::vector<Value> declared;
  declared.reserve(graph.outputs.size());
  for (ValueId id : graph.outputs) declared.push_back(graph.value(id));
  return declared;
}

// What programs are told of an output, as ONNX Runtime merges what the model declares with what its operators give: a
// declaration adds to what is unknown, and one that contradicts leaves the dimension, or the rank, open.
Value merged(const Value& declared, const Value& inferred) {
  Value out = inferred;
  if (!declared.has_rank) return out;
  if (!inferred.has_rank) {
    out.has_rank = true;
    out.dims = declared.dims;
    return out;
  }
  bool agree = declared.dims.size() == inferred.dims.size();
  out.has_rank = agree;
  for (size_t i = 0; i < inferred.dims.size() && out.has_rank; ++i) {
    const Dim &said = declared.dims[i], &found = inferred.dims[i];
    if (!found.known() && (said.known() || !said.symbol.empty())) out.dims[i] = said;
    if (!found.known() || !said.known() || found.value == said.value) continue;
    out.dims[i] = Dim{};
    agree = false;
  }
  if (!agree)
    log_warning("load", "The model declares output \"{}\" as {}, and its operators give {}; what they give counts.",
                inferred.name, declared.type_text(), inferred.type_text());
  return out;
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
  std::shared_ptr<SessionImpl> session(new SessionImpl());
  session->model_ = std::move(model).value();
  TENON_TRY_ASSIGN(const SessionOptions checked, checked_options(options));
  TENON_TRY(session->prepare(checked));
  return std::shared_ptr<Session>(std::move(session));
}

Status SessionImpl::prepare(const SessionOptions& options) {
  options_ = options;
  provider_ = cpu::make_cpu_provider();
  host_provider_ = std::make_unique<HostOperators>(*provider_, planner_options_.devices);
  planner_options_.provider = host_provider_.get();
  TENON_TRY(fix_dims(model_, options));
  Graph& graph = model_.graph;
  separate_symbols(graph);
  const std::vector<Value> declared = declared_outputs(graph);
  TENON_TRY(infer_shapes(graph));
  TENON_TRY(make_device_providers());
  TENON_TRY(infer_provider_types());
  describe_values(declared);  // before EPs take constants away
  TENON_TRY(partition());
  for (DeviceAllocator* allocator : spaces_.allocators) arenas_.emplace_back(allocator);
  // What nobody reads needs no kernel: exporters leave such nodes.
  graph.remove_dead_nodes();
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
  TENON_TRY(check_fallback());
  TENON_TRY(describe_spaces());
  planner_options_.pool = pool_.get();
  planner_options_.fold_pool = fold_pool_.get();
  planner_options_.weights = &weights_;
  planner_options_.winograd = options.winograd;
  planner_options_.keep_text = [this](const std::string& text) { return keep_text(text); };
  subgraphs_ = std::make_unique<ControlFlowKernels>(planner_options_, arenas_[0]);
  planner_options_.subgraphs = subgraphs_.get();
  for (const auto& provider : device_providers_) provider->set_subgraphs(*subgraphs_);
  planner_options_.observe = dump_observer("plan");
  plans_ = std::make_unique<Guarded<SignatureCache<PlanRuntime>>>(std::in_place, options.plan_cache_size);
  return {};
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

// After the passes, as in ONNX Runtime: a node that is folded away needs no EP.
Status SessionImpl::check_fallback() const {
  if (!cpu_fallback_disabled(options_)) return {};
  for (const Node& node : model_.graph.nodes) {
    const int32_t number = provider_number(node);
    // Kernels on host memory that the library of another EP registers are the CPU EP's.
    if (number == 0 || device_ep_names_[static_cast<size_t>(number - 1)] == "CPUExecutionProvider")
      return fallback_refused(first_output_name(model_.graph, node));
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

void SessionImpl::describe_values(std::span<const Value> declared) {
  for (ValueId id : model_.graph.inputs) inputs_.push_back(info_of(model_.graph.value(id)));
  for (size_t i = 0; i < model_.graph.outputs.size(); ++i)
    outputs_.push_back(info_of(merged(declared[i], model_.graph.value(model_.graph.outputs[i]))));
  const ModelInfo& info = model_.info;
  // Before IR 4 every initializer had to be listed, so that says nothing there.
  if (info.ir_version >= 4) {
    for (ValueId id : model_.notes.overridable) {
      const Value& value = model_.graph.value(id);
      overridable_.push_back(info_of(value));
      overridable_defaults_.push_back(default_of(value));
    }
  }
  metadata_ = metadata_of(model_);
}

}  // namespace tenon
