#include "ep/sim/sim_ep.h"

#include "ep/sim/sim_factory.h"
#include "ep/sim/sim_plugin_objects.h"

namespace tenon::sim {

using plugin::GraphNode;
using plugin::HostApi;
using plugin::OptionKind;

namespace {

constexpr plugin::OptionRow kOptions[] = {
    {"mode", OptionKind::kChoice, "compile", "compile|kernels"},
    {"exclude", OptionKind::kText, ""},  // operators that the EP leaves to others: "Add,Mul"
    {"fail_at", OptionKind::kText, ""},  // a step of sim_counters.h
    {"fail_nth", OptionKind::kInteger, "1", "", 1, 1'000'000'000},
    {"concurrent_runs", OptionKind::kFlag, "1"},
    {"keep_scratch_bytes", OptionKind::kInteger, "67108864", "", 0, INT64_MAX},
};

class SimCompiledNode final : public plugin::CompiledNode {
 public:
  SimCompiledNode(const HostApi& host, std::shared_ptr<SimRuntime> runtime, std::shared_ptr<const SimProgram> program)
      : CompiledNode(host), runtime_(std::move(runtime)), program_(std::move(program)) {}

 private:
  struct State final : plugin::ComputeState {
    SimCounters::Live counted{counters().compute_states};
  };
  Result<std::unique_ptr<plugin::ComputeState>> create_state() override {
    TENON_TRY(runtime_->hit(SimStep::create_state));
    return std::unique_ptr<plugin::ComputeState>(std::make_unique<State>());
  }
  Status compute(plugin::ComputeState&, OrtKernelContext* context) override {
    TENON_TRY(runtime_->hit(SimStep::compute));
    return program_->run(host(), plugin::KernelCall(host(), context));
  }

  const std::shared_ptr<SimRuntime> runtime_;
  const std::shared_ptr<const SimProgram> program_;
  SimCounters::Live counted_{counters().compiled_nodes};
};

}  // namespace

Result<std::unique_ptr<SimEp>> SimEp::create(SimFactory& factory, std::shared_ptr<SimDevice> device,
                                             const plugin::EpRequest& request) {
  const HostApi& host = factory.host();
  TENON_TRY_ASSIGN(const plugin::TextPairs entries, host.session_entries(request.session_options));
  const std::string prefix = factory.option_prefix();
  const std::string_view prefixes[] = {prefix, "ep.sim."};
  TENON_TRY_ASSIGN(plugin::OptionValues options, plugin::OptionValues::parse(kOptions, prefixes, entries));

  auto runtime = std::make_shared<SimRuntime>();
  if (const std::string& step_text = options.text("fail_at"); !step_text.empty()) {
    const SimStep* step = find_step(step_text);
    TENON_INVALID_IF(step == nullptr,
                     "Option \"fail_at\" is \"{}\", which is no step of the simulated device; the steps are {}.",
                     step_text, step_names());
    runtime->faults.arm(step, options.integer("fail_nth"));
  }
  TENON_TRY(runtime->faults.hit(SimStep::create_ep));
  if (device != nullptr)
    runtime->scratch =
        std::make_shared<plugin::ScratchPool>(device->scratch_source(), options.integer("keep_scratch_bytes"));
  runtime->device = std::move(device);

  const bool compiles = options.text("mode") == "compile";
  std::unique_ptr<SimEp> ep(new SimEp(factory, runtime, std::move(options), compiles));
  // Now, because onnxruntime 1.24 loses an EP whose GetKernelRegistry fails.
  TENON_TRY(ep->make_registry());
  for (const auto& [key, value] : entries) {
    if (key == "ep.context_embed_mode") ep->context_embedded_ = value != "0";
    if (key == "ep.context_file_path") ep->context_folder_ = value.substr(0, value.find_last_of('/') + 1);
  }
  return ep;
}

SimEp::SimEp(SimFactory& factory, std::shared_ptr<SimRuntime> runtime, plugin::OptionValues options, bool compiles)
    : Ep(factory.host(), factory.identity().ep_name,
         {.compile = compiles,
          .kernel_registry = !compiles || runtime->device != nullptr,
          .streams = runtime->device != nullptr,
          .profiler = true,
          .ep_context = false}),
      factory_(factory),
      runtime_(std::move(runtime)),
      options_(std::move(options)),
      compiles_(compiles) {}

bool SimEp::excluded(const std::string& op_type) const {
  std::string_view names = options_.text("exclude");
  while (!names.empty()) {
    const size_t comma = names.find(',');
    if (names.substr(0, comma) == op_type) return true;
    names = comma == std::string_view::npos ? "" : names.substr(comma + 1);
  }
  return false;
}

Status SimEp::get_capability(const OrtGraph* graph, OrtEpGraphSupportInfo* support) {
  TENON_TRY(runtime_->hit(SimStep::get_capability));
  TENON_TRY_ASSIGN(const std::vector<GraphNode> nodes, graph_nodes(host(), graph));
  // A run of nodes that follow each other in the host's topological order is a convex part of the graph.
  std::vector<const OrtNode*> part;
  const auto claim_part = [&]() -> Status {
    if (part.empty()) return Status();
    OrtNodeFusionOptions fusion{};
    fusion.ort_version_supported = host().version();
    fusion.drop_constant_initializers = true;
    TENON_ORT_EP_TRY(host(), EpGraphSupportInfo_AddNodesToFuse, support, part.data(), part.size(), &fusion);
    part.clear();
    return Status();
  };
  for (const GraphNode& node : nodes) {
    if (compiles_ && is_own_context(node)) {
      TENON_TRY(claim_part());
      part.push_back(node.node);
      TENON_TRY(claim_part());
      continue;
    }
    const bool runs = !excluded(node.op_type) && can_run(node, compiles_).ok();
    if (!runs) {
      TENON_TRY(claim_part());
      continue;
    }
    if (compiles_) {
      part.push_back(node.node);
      continue;
    }
    const OrtKernelDef* kernel = nullptr;
    TENON_ORT_EP_TRY(host(), EpGraphSupportInfo_LookUpKernel, support, node.node, &kernel);
    if (kernel != nullptr) TENON_ORT_EP_TRY(host(), EpGraphSupportInfo_AddSingleNode, support, node.node);
  }
  return claim_part();
}

Result<std::unique_ptr<plugin::CompiledNode>> SimEp::compile(const OrtGraph* graph, const OrtNode* fused_node,
                                                             OrtNode** context_node) {
  TENON_TRY(runtime_->hit(SimStep::compile));
  TENON_TRY_ASSIGN(const GraphNode fused, graph_node(host(), fused_node));
  TENON_TRY_ASSIGN(const std::vector<GraphNode> nodes, graph_nodes(host(), graph));
  std::shared_ptr<SimProgram> program;
  if (nodes.size() == 1 && is_own_context(nodes[0])) {
    TENON_TRY_ASSIGN(program, read_context(nodes[0]));
    TENON_INVALID_IF(program->input_count() != fused.inputs.size() || program->output_count() != fused.outputs.size(),
                     "The compiled program of {} has {} inputs and {} outputs; its node has {} and {}.",
                     nodes[0].label(), program->input_count(), program->output_count(), fused.inputs.size(),
                     fused.outputs.size());
  } else {
    TENON_TRY_ASSIGN(program, SimProgram::build(host(), runtime_, graph, fused));
  }
  if (context_node != nullptr) {
    TENON_TRY_ASSIGN(*context_node, write_context(fused, *program));
  }
  return std::unique_ptr<plugin::CompiledNode>(std::make_unique<SimCompiledNode>(host(), runtime_, std::move(program)));
}

Status SimEp::make_registry() {
  TENON_TRY(runtime_->hit(SimStep::kernel_registry));
  std::vector<plugin::KernelRow> rows;
  if (!compiles_) rows = sim_kernel_rows(host(), runtime_);
  if (runtime_->device != nullptr)
    for (plugin::KernelRow& row : sim_copy_rows(host(), runtime_)) rows.push_back(std::move(row));
  TENON_TRY_ASSIGN(registry_, plugin::KernelRegistry::create(host(), name(), std::move(rows)));
  return Status();
}

Result<const OrtKernelRegistry*> SimEp::kernel_registry() { return registry_->get(); }

Result<std::unique_ptr<plugin::SyncStream>> SimEp::create_stream(const OrtMemoryDevice*) {
  TENON_TRY(runtime_->hit(SimStep::create_stream));
  return std::unique_ptr<plugin::SyncStream>(std::make_unique<SimSyncStream>(
      host(), runtime_->device, format("session {}", ++streams_made_),
      [runtime = runtime_](SimStep step) { return runtime->hit(step); },
      [runtime = runtime_](const Status& failure) { runtime->runs.fail(failure); }));
}

Result<std::unique_ptr<plugin::Profiler>> SimEp::create_profiler() {
  TENON_TRY(runtime_->hit(SimStep::create_profiler));
  return std::unique_ptr<plugin::Profiler>(std::make_unique<SimProfiler>(host(), runtime_));
}

Result<std::unique_ptr<plugin::Allocator>> SimEp::create_allocator(const OrtMemoryInfo* info) {
  TENON_TRY(runtime_->hit(SimStep::create_allocator));
  return factory_.make_allocator(info);
}

// S5.3: a host without KernelContext_GetSyncStream may hand a kernel another run's stream.
Result<bool> SimEp::is_concurrent_run_supported() { return host().version() >= 28 && options_.flag("concurrent_runs"); }

Status SimEp::on_run_start(const OrtRunOptions*) {
  TENON_TRY(runtime_->hit(SimStep::on_run_start));
  ++counters().total_runs;
  if (runtime_->runs.start() > 1) ++counters().total_overlapping_runs;
  return Status();
}

Status SimEp::on_run_end(const OrtRunOptions*, bool sync_stream) {
  Status failure = runtime_->runs.end(sync_stream);
  TENON_TRY(runtime_->hit(SimStep::on_run_end));
  return failure;
}

Status SimEp::sync() {
  if (runtime_->device != nullptr) runtime_->device->run_everything();
  return runtime_->hit(SimStep::sync);
}

Status SimEp::on_session_initialization_end() { return runtime_->hit(SimStep::initialization_end); }

std::string SimEp::compatibility_info(const OrtGraph*) { return std::string(kSimCompatibility); }

}  // namespace tenon::sim
