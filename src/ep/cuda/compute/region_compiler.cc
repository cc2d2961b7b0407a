#include "ep/cuda/compute/region_compiler.h"

#include <algorithm>
#include <atomic>
#include <utility>

#include "base/format.h"
#include "base/log.h"
#include "ep/cuda/compute/claims.h"
#include "ep/cuda/compute/graph_import.h"
#include "ep/cuda/compute/in_place.h"
#include "ep/cuda/compute/plan.h"
#include "ep/cuda/compute/region_trial.h"
#include "ep/cuda/driver/nccl.h"
#include "ep/cuda/lap.h"
#include "ops/collective.h"

namespace tenon::cuda {

using plugin::GraphNode;
using plugin::GraphValue;

namespace {

class RegionNode final : public plugin::CompiledNode {
 public:
  // `arguments`: which of the node's inputs are the region's; the others are constants.
  RegionNode(std::shared_ptr<CudaSession> session, std::shared_ptr<ComputeRegion> region, std::vector<size_t> arguments)
      : CompiledNode(session->host()),
        session_(std::move(session)),
        region_(std::move(region)),
        arguments_(std::move(arguments)),
        note_(precision_note(region_->region(), session_->options().tf32)) {}

 private:
  struct State final : plugin::ComputeState {};
  Result<std::unique_ptr<plugin::ComputeState>> create_state() override {
    return std::unique_ptr<plugin::ComputeState>(std::make_unique<State>());
  }

  Status compute(plugin::ComputeState&, OrtKernelContext* kernel) override {
    const plugin::KernelCall call(host(), kernel);
    WorkFences fences;
    TENON_TRY_ASSIGN(const CallStream stream, session_->call_stream(call, &fences));
    Status queued = queue(call, stream, fences);
    session_->give_back(std::move(fences));
    return session_->end_work(stream, std::move(queued));
  }

  const char* description() const override { return note_.empty() ? nullptr : note_.c_str(); }

  bool may_run_in_place(size_t input, size_t output, std::span<const Shape> inputs) override {
    std::vector<Shape> shapes;
    size_t argument = arguments_.size();
    for (size_t i = 0; i < arguments_.size(); ++i) {
      if (arguments_[i] >= inputs.size()) return false;
      if (arguments_[i] == input) argument = i;
      shapes.push_back(inputs[arguments_[i]]);
    }
    const Result<std::shared_ptr<ComputePlan>> plan = region_->plan(shapes);
    return plan.ok() && cuda::may_run_in_place((*plan)->program(), argument, output);
  }

  Status queue(const plugin::KernelCall& call, const CallStream& stream, WorkFences& fences) {
    TENON_TRY_ASSIGN(const ContextScope scope, ContextScope::enter(*session_->device()));
    std::vector<Shape> shapes;
    std::vector<CUdeviceptr> inputs, outputs;
    for (size_t index : arguments_) {
      TENON_TRY_ASSIGN(const plugin::TensorArgument input, call.input(index));
      shapes.push_back(input.shape);
      inputs.push_back(reinterpret_cast<CUdeviceptr>(input.data));
    }
    TENON_TRY_ASSIGN(const std::shared_ptr<ComputePlan> plan, region_->plan(shapes));
    for (size_t i = 0; i < plan->program().outputs.size(); ++i) {
      TENON_TRY_ASSIGN(const plugin::TensorArgument output, call.output(i, plan->output_shape(i)));
      outputs.push_back(reinterpret_cast<CUdeviceptr>(output.data));
    }
    tell_of_copies(inputs, outputs);
    TENON_TRY(session_->begin_work(stream));
    return plan->run(inputs, outputs, fences);
  }

  // Nothing is copied in silence. Once a node: a program that binds so does it again.
  void tell_of_copies(std::span<const CUdeviceptr> inputs, std::span<const CUdeviceptr> outputs) {
    const Graph& graph = region_->region().graph();
    const auto tell = [&](const char* what, std::span<const CUdeviceptr> bound, const std::vector<ValueId>& ids) {
      for (size_t i = 0; i < bound.size(); ++i) {
        if (bound[i] % ComputePlan::kBindingAlignment == 0 || told_.exchange(true)) continue;
        session_->log(ORT_LOGGING_LEVEL_WARNING,
                      format("CUDA copies {} \"{}\" on the device in each run: it is at {:#x}, and kernels take "
                             "multiples of {} bytes. Others that lie so are not told of.",
                             what, graph.value(ids[i]).name, bound[i], ComputePlan::kBindingAlignment));
      }
    };
    tell("input", inputs, graph.inputs);
    tell("output", outputs, graph.outputs);
  }

  const std::shared_ptr<CudaSession> session_;
  const std::shared_ptr<ComputeRegion> region_;
  const std::vector<size_t> arguments_;
  const std::string note_;
  std::atomic<bool> told_{false};
};

class Compiler final : public RegionCompiler {
 public:
  Compiler(std::shared_ptr<CudaSession> session, std::shared_ptr<ComputeContext> context)
      : session_(std::move(session)), context_(std::move(context)) {}

  Status claim(const OrtGraph* graph, OrtEpGraphSupportInfo* support) override {
    if (const Status able = context_->can_generate(); !able.ok()) {
      session_->log(ORT_LOGGING_LEVEL_WARNING,
                    format("CUDA takes no nodes, because NVRTC is not there: {}", able.message()));
      return Status();
    }
    return claim_regions(*session_, graph, support);
  }

  Result<std::unique_ptr<plugin::CompiledNode>> compile(const OrtGraph* graph, const OrtNode* fused_node) override {
    Lap lap;
    TENON_TRY_ASSIGN(FusedRegion fused, import_region(*session_, graph, fused_node));
    TENON_TRACE(kPlan, "CUDA region: read in {:.1f} ms.", lap.ms());
    context_->load_early(fused.graph);
    TENON_TRY_ASSIGN(std::shared_ptr<ComputeRegion> compiled, ComputeRegion::create(context_, std::move(fused.graph)));
    if (!std::exchange(told_, true))
      for (const std::string& missing : context_->missing()) session_->log(ORT_LOGGING_LEVEL_WARNING, missing);
    if (!told_of_tf32_ && !precision_note(compiled->region(), session_->options().tf32).empty()) {
      told_of_tf32_ = true;
      session_->log(ORT_LOGGING_LEVEL_INFO,
                    "CUDA computes float32 products and convolutions in TF32, which keeps 11 bits of each operand, as "
                    "ONNX Runtime's CUDA EP does; option use_tf32 = 0 keeps 24.");
    }
    // Where every shape is known already, so is the plan: the first run then waits for nothing.
    std::vector<Shape> shapes;
    for (ValueId id : compiled->region().graph().inputs) {
      const Value& value = compiled->region().graph().value(id);
      if (value.fully_known()) shapes.push_back(value.shape());
    }
    if (shapes.size() == fused.arguments.size()) {
      TENON_TRY(compiled->plan(shapes).status());
      compiled->drop_constants();
    } else {
      TENON_TRY(compiled->own_constants());
    }
    return std::unique_ptr<plugin::CompiledNode>(
        std::make_unique<RegionNode>(session_, std::move(compiled), std::move(fused.arguments)));
  }

 private:
  const std::shared_ptr<CudaSession> session_;
  const std::shared_ptr<ComputeContext> context_;
  bool told_ = false, told_of_tf32_ = false;
};

}  // namespace

namespace {

// Says in the graph how many ranks there are. Errors: nothing says it, or something else; NCCL is not there.
Status give_ranks_of(const CudaSession& session, Graph& graph) {
  const auto first = std::find_if(graph.nodes.begin(), graph.nodes.end(), is_collective);
  if (first == graph.nodes.end()) return Status();
  const RankOptions& ranks = session.options().ranks;
  const std::string name = first->label(graph);
  TENON_TRY_CONTEXT(ranks.wrong, "while reading which rank of {} this is", name);
  TENON_INVALID_IF(!ranks.given,
                   "{} exchanges tensors among ranks, and nothing says how many there are: options "
                   "\"collective_world_size\" and \"collective_rank\" do, or a launcher such as torchrun.",
                   name);
  TENON_TRY_CONTEXT(give_ranks(graph, ranks.ranks), "in a session that is {}", ranks.who());
  if (ranks.ranks > 1)
    TENON_TRY_CONTEXT(nccl().status(), "while looking for NCCL, through which {} exchanges tensors", name);
  return Status();
}

}  // namespace

Status claim_regions(const CudaSession& session, const OrtGraph* graph, OrtEpGraphSupportInfo* support) {
  Lap lap;
  const plugin::HostApi& host = session.host();
  TENON_TRY_ASSIGN(ImportedGraph imported, import_graph(host, graph));
  TENON_TRY(give_ranks_of(session, imported.graph));
  PerNode<bool> claimed = claim_nodes(imported.graph), barriers;
  for (NodeId n : claimed.ids()) {
    barriers.push_back(imported.nodes[n].subgraphs != 0);
    claimed[n] = claimed[n] && !barriers[n];
  }
  const double claims_ms = lap.ms();
  const SettledClaims settled = settle_claims(imported.graph, std::move(claimed), barriers, session.options().tf32);
  const PerNode<int>& groups = settled.groups;
  for (const std::string& refusal : settled.refusals) TENON_TRACE(kDispatch, "CUDA: {}", refusal);
  std::vector<std::vector<const OrtNode*>> parts;
  for (NodeId n : groups.ids()) {
    if (groups[n] < 0) continue;
    parts.resize(std::max(parts.size(), static_cast<size_t>(groups[n]) + 1));
    parts[groups[n]].push_back(imported.nodes[n].node);
  }
  for (const std::vector<const OrtNode*>& part : parts) {
    OrtNodeFusionOptions fusion{};
    fusion.ort_version_supported = host.version();
    fusion.drop_constant_initializers = true;
    TENON_ORT_EP_TRY(host, EpGraphSupportInfo_AddNodesToFuse, support, part.data(), part.size(), &fusion);
  }
  TENON_TRACE(kPlan, "CUDA: claims in {:.1f} ms, their regions tried in {:.1f} ms.", claims_ms, lap.ms());
  return Status();
}

Result<FusedRegion> import_region(const CudaSession& session, const OrtGraph* graph, const OrtNode* fused_node) {
  const plugin::HostApi& host = session.host();
  TENON_TRY_ASSIGN(const GraphNode fused, graph_node(host, fused_node));
  TENON_TRY_ASSIGN(ImportedGraph imported, import_graph(host, graph));
  FusedRegion region{.graph = std::move(imported.graph), .arguments = {}};
  for (size_t i = 0; i < fused.inputs.size(); ++i) {
    const ValueId id = find_value(region.graph, fused.inputs[i].name);
    if (id == kNoValue || region.graph.value(id).constant != nullptr) continue;
    region.graph.inputs.push_back(id);
    region.arguments.push_back(i);
  }
  for (const GraphValue& output : fused.outputs) {
    const ValueId id = find_value(region.graph, output.name);
    TENON_INVALID_IF(id == kNoValue, "Output \"{}\" of the region is made by none of its nodes.", output.name);
    region.graph.outputs.push_back(id);
  }
  TENON_TRY(give_ranks_of(session, region.graph));
  const auto& nodes = region.graph.nodes;
  if (session.communicator() != nullptr && std::any_of(nodes.begin(), nodes.end(), is_collective)) {
    TENON_TRY_ASSIGN(const Nccl* const library, nccl());
    TENON_TRY(session.communicator()->start(*library));
  }
  TENON_TRY(region.graph.sort_topologically());
  return region;
}

Result<std::unique_ptr<RegionCompiler>> make_region_compiler(std::shared_ptr<CudaSession> session) {
  const CudaOptions& options = session->options();
  TENON_TRY_ASSIGN(
      std::shared_ptr<ComputeContext> context,
      ComputeContext::create(
          session->device(), session->device_memory(),
          {.tf32 = options.tf32,
           .measure = options.conv_search == "EXHAUSTIVE",
           .graphs = options.cuda_graph.value_or(true),
           .cudnn = options.cudnn,
           .capture_at_once = options.cuda_graph.value_or(false),
           .cache_file = options.algorithm_cache,
           .tune_budget_ms = options.tune_budget_ms,
           .tell = [session =
                        session.get()](const std::string& line) { session->log(ORT_LOGGING_LEVEL_WARNING, line); },
           .release_later = [memory = session->memory()](
                                std::shared_ptr<void> what) { memory->release_when_nobody_waits(std::move(what)); },
           .communicator = session->communicator(),
           .before_loading = [memory = session->memory(),
                              timeout_ms =
                                  options.load_timeout_ms] { return until_code_loads(*memory, timeout_ms); }}));
  return std::unique_ptr<RegionCompiler>(std::make_unique<Compiler>(std::move(session), std::move(context)));
}

}  // namespace tenon::cuda
