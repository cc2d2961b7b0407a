#include "runtime/session_eps.h"

#include <algorithm>
#include <string_view>
#include <utility>

#include "base/log.h"
#include "base/trace.h"
#include "ep/cpu/cpu_provider.h"
#include "ops/attributes.h"
#include "ops/shape_inference.h"
#include "plan/control_flow.h"
#include "runtime/control_flow.h"
#include "runtime/ep_registry.h"
#include "runtime/host_operators.h"
#include "runtime/session_config.h"

namespace tenon {

namespace {

constexpr std::string_view kCpuEpName = "CPUExecutionProvider";
// A larger constant sets no shape: a body need not keep it once the EP has compiled it.
constexpr size_t kMaxShapeConstantBytes = 4096;

EpAssignment::AssignedNode assigned(const Node& node) { return {node.name, node.domain, node.op_type}; }

void drop_large_constants(Graph& body) {
  for (Value& value : body.values) {
    if (value.constant && value.constant->size_bytes > kMaxShapeConstantBytes) value.constant = nullptr;
  }
}

// Another device of a session's EP may hold what the caller binds: it is copied, by the EP's data transfer.
void add_neighbours(const SessionOptions& options, SpaceTable& table) {
  for (const EpChoice& choice : options.eps) {
    if (choice.ep_name == kCpuEpName) continue;
    const Result<std::shared_ptr<EpFactory>> found = EpRegistry::instance().find(choice.ep_name);
    if (!found.ok()) continue;  // its library has been unregistered meanwhile, and only our own providers are left
    const std::shared_ptr<EpFactory>& factory = *found;
    for (size_t device = 0; factory->devices().size() > 1 && device < factory->devices().size(); ++device) {
      for (auto& allocator : factory->shared_allocators(device)) {
        if (allocator != nullptr) table.add_neighbour(std::move(allocator));
      }
    }
  }
}

// With bodies of its own; their constants are shared.
Graph deep_copy(const Graph& graph) {
  Graph copy = graph;
  for (Node& node : copy.nodes)
    for (Attribute& attribute : node.attributes.edit_bodies())
      if (attribute.graph != nullptr) attribute.graph = std::make_shared<Graph>(deep_copy(*attribute.graph));
  return copy;
}

// The first outputs of an operator may be left out.
std::string_view first_output_name(const Graph& graph, const Node& node) {
  for (ValueId id : node.outputs)
    if (id != kNoValue && !graph.value(id).name.empty()) return graph.value(id).name;
  return "";
}

}  // namespace

SessionEps::SessionEps() : cpu_(cpu::make_cpu_provider()), host_(std::make_unique<HostOperators>(*cpu_, devices_)) {}

Status SessionEps::make(const SessionOptions& options) {
  if (options.reference_kernels) {
    host_.reset();
    cpu_ = cpu::make_cpu_provider(/*reference_only=*/true);
    host_ = std::make_unique<HostOperators>(*cpu_, devices_);
  }
  for (const EpChoice& choice : options.eps) {
    if (choice.ep_name == kCpuEpName) continue;  // it is always there, and always the last
    for (const std::string& name : names_) {
      TENON_INVALID_IF(name == choice.ep_name, "SessionOptions::eps names the EP \"{}\" twice.", choice.ep_name);
    }
    TENON_TRY_ASSIGN(const std::shared_ptr<EpFactory> factory, EpRegistry::instance().find(choice.ep_name));
    TENON_UNSUPPORTED_IF(factory->devices().empty() && factory->needs_device(),
                         "The EP \"{}\" offers no device on this machine; one may be offered to its library "
                         "(EpLibraryOptions::offer, --offer).",
                         choice.ep_name);
    std::vector<size_t> devices = choice.devices;
    if (devices.empty() && !factory->devices().empty()) devices.push_back(0);
    for (size_t device : devices) {
      TENON_INVALID_IF(device >= factory->devices().size(),
                       "SessionOptions::eps asks for device {} of the EP \"{}\", which has {}.", device, choice.ep_name,
                       factory->devices().size());
    }
    Result<std::unique_ptr<DeviceProvider>> provider = factory->create_provider(choice, devices, options);
    if (!provider.ok()) {
      return std::move(provider).status().with_context(format("while making the EP \"{}\"", choice.ep_name));
    }
    if (*provider == nullptr) return device_error("The EP \"{}\" made no provider.", choice.ep_name);
    devices_.push_back(provider->get());
    owned_.push_back(std::move(provider).value());
    names_.push_back(choice.ep_name);
  }
  for (EpId ep : owned_.ids()) {
    TENON_TRY_ASSIGN(std::unique_ptr<DeviceProvider> companion, owned_[ep]->host_companion());
    if (companion == nullptr) continue;
    devices_.push_back(companion.get());
    owned_.push_back(std::move(companion));
    names_.push_back(std::string(kCpuEpName));
  }
  return {};
}

Status SessionEps::infer_types(Graph& graph) {
  for (bool changed = true; changed;) {
    changed = false;
    for (EpId ep : devices_.ids()) {
      const auto infer = [&](Graph& part) -> Status {
        Result<bool> inferred = devices_[ep]->infer_types(part);
        if (!inferred.ok())
          return std::move(inferred).status().with_context(
              format("while the EP \"{}\" infers the types of its operators", names_[ep]));
        changed = changed || *inferred;
        return {};
      };
      TENON_TRY(infer(graph));
      TENON_TRY(for_each_body(graph, infer));
    }
    if (changed) TENON_TRY(infer_shapes(graph));
  }
  return {};
}

Status SessionEps::partition(Model& model, OnceCopies& copies) {
  for (DeviceProvider* provider : devices_) provider->set_model(model);
  Refused refused;
  for (size_t ep = 0; ep < devices_.size(); ++ep) refused.push_back(std::vector<uint8_t>(model.graph.nodes.size(), 0));
  for (;;) {
    TENON_TRY_ASSIGN(const bool done, try_partition(model.graph, refused));
    if (done) break;
  }
  for (const DeviceProvider* provider : devices_) {
    for (const CopyRecord& record : provider->constant_copies()) copies.add_at_load(record);
  }
  for (EpId ep : devices_.ids()) {
    TENON_TRY_CONTEXT(devices_[ep]->loaded(), "after the EP \"{}\" has compiled its regions", names_[ep]);
  }
  return active_.empty() ? Status() : infer_shapes(model.graph);
}

Result<bool> SessionEps::try_partition(Graph& graph, Refused& refused) {
  Partition partition(graph);
  const auto not_for = [&](EpId ep) {
    auto nodes = std::make_unique<bool[]>(graph.nodes.size());
    for (NodeId n : graph.nodes.ids()) nodes[n.index()] = partition.taken()[n] || refused[ep][n.index()] != 0;
    return nodes;
  };
  for (EpId ep : devices_.ids()) {
    TraceSpan span("load", "claim");
    if (span) span.args().add("ep", names_[ep]);
    const auto taken = not_for(ep);
    Result<std::vector<Claim>> claims =
        devices_[ep]->claim(graph, IdSpan<NodeId, const bool>({taken.get(), graph.nodes.size()}));
    if (!claims.ok()) {
      // As elsewhere: an EP that cannot say what it wants gets nothing, and the model still runs.
      log_warning("dispatch", "The EP \"{}\" takes no nodes, because its claim failed: {}", names_[ep],
                  claims.status().to_string());
      failed_claim_ = format("the claim of the EP \"{}\" failed: {}", names_[ep], claims.status().message());
      continue;
    }
    TENON_TRY(partition.add(ep, names_[ep], std::move(claims).value()));
  }
  for (EpId ep : devices_.ids()) {
    Result<std::vector<Claim>> claims = devices_[ep]->claim_rest(graph, partition.taken());
    if (!claims.ok())
      return std::move(claims).status().with_context(
          format("while the EP \"{}\" is asked for operators of its own", names_[ep]));
    TENON_TRY(partition.add(ep, names_[ep], std::move(claims).value()));
  }
  for (const std::string& why : partition.dropped()) TENON_TRACE(kDispatch, "{}", why);
  if (partition.grants().empty()) {
    PerDeviceEp<std::vector<Region>> in_bodies;
    describe_assignments(graph, partition);
    TENON_TRY(claim_in_bodies(graph, devices_, names_, 0, in_bodies));
    return compile(graph, {}, partition, in_bodies, refused);
  }
  // For another attempt: a region takes its nodes, and bodies get regions too.
  const Graph before = deep_copy(graph);
  TENON_TRY_ASSIGN(const std::vector<Region> regions, partition.build(graph));
  PerDeviceEp<std::vector<Region>> in_bodies;
  TENON_TRY(claim_in_bodies(graph, devices_, names_, static_cast<int32_t>(regions.size()), in_bodies));
  TENON_TRY_ASSIGN(const bool compiled, compile(before, regions, partition, in_bodies, refused));
  if (!compiled) {
    graph = before;
    return false;
  }
  describe_assignments(before, partition);
  for (size_t r = 0; r < regions.size(); ++r) active_.push_back(partition.grants()[r].ep);
  std::sort(active_.begin(), active_.end());
  active_.erase(std::unique(active_.begin(), active_.end()), active_.end());
  for (Node& node : graph.nodes) {
    if (!is_region(node)) continue;
    const Region& region = regions[Attributes(node).integer("region")];
    if (region.drop_constants) drop_large_constants(*node.find("body")->graph);
  }
  const PerValue<int32_t> uses = graph.use_counts();
  for (ValueId id : graph.values.ids()) {
    if (uses[id] == 0) graph.value(id).constant = nullptr;
  }
  return true;
}

Result<bool> SessionEps::compile(const Graph& graph, std::span<const Region> regions, const Partition& partition,
                                 const PerDeviceEp<std::vector<Region>>& in_bodies, Refused& refused) const {
  for (EpId ep : devices_.ids()) {
    std::vector<Region> own;
    for (size_t r = 0; r < regions.size(); ++r) {
      if (partition.grants()[r].ep == ep) own.push_back(regions[r]);
    }
    own.insert(own.end(), in_bodies[ep].begin(), in_bodies[ep].end());
    TENON_TRACE(kDispatch, "The EP \"{}\" runs {} regions.", names_[ep], own.size());
    TraceSpan span("load", "compile");
    if (span) {
      std::vector<std::string> names;
      size_t nodes = 0;
      for (const Region& region : own) {
        names.push_back(region.name);
        nodes += region.nodes.size();
      }
      span.args().add("ep", names_[ep]).add("regions", names).add("nodes", nodes);
    }
    const std::string context = format("while the EP \"{}\" compiles {} regions", names_[ep], own.size());
    TENON_TRY_CONTEXT(devices_[ep]->compile(own), "{}", context);
    bool grown = false;
    for (const DeviceProvider::RefusedRegion& one : devices_[ep]->refused_regions()) {
      // No other EP was asked for the nodes that an EP has claimed in a body.
      const bool in_body = one.id < 0 || one.id >= static_cast<int32_t>(regions.size());
      size_t fresh = 0;
      for (NodeId n : in_body ? PerNode<NodeId>() : regions[one.id].nodes)
        fresh += std::exchange(refused[ep][n.index()], 1) == 0 ? 1 : 0;
      if (fresh == 0) return Status(one.why).with_context(context);
      log_warning("dispatch", "The EP \"{}\" could not compile {} of its nodes ({}, ...), which go to the next EP: {}",
                  names_[ep], fresh, graph.nodes[regions[one.id].nodes[NodeId(0)]].label(graph), one.why.to_string());
      grown = true;
    }
    if (grown) return false;
  }
  return true;
}

// A graph of a device leaves out what the host does between its nodes, so the EP decides whether it wants all nodes or
// none.
Result<GraphCapture*> SessionEps::choose_graph_capture(const Graph& graph) const {
  for (EpId ep : active_) {
    GraphCapture* capture = devices_[ep]->graph_capture();
    if (capture == nullptr) continue;
    const auto others =
        std::count_if(graph.nodes.begin(), graph.nodes.end(), [&](const Node& node) { return ep_of(node) != ep; });
    TENON_UNSUPPORTED_IF(
        others > 0 && capture->needs_whole_model(),
        "The EP \"{}\" is to capture graphs, for which it needs the whole model; {} nodes are not its own.", names_[ep],
        others);
    return capture;
  }
  return nullptr;
}

Result<SpaceTable> SessionEps::start(const SessionOptions& options, const Graph& graph, DeviceRuns& runs) const {
  SpaceTable table;
  auto streams = std::make_unique<RunStreams>(devices_);
  bool one_at_a_time = false;
  for (EpId ep : devices_.ids()) {
    bool has_stream = false;  // an EP without regions never runs, and needs none
    if (std::find(active_.begin(), active_.end(), ep) != active_.end()) {
      one_at_a_time = one_at_a_time || !devices_[ep]->concurrent_runs();
      TENON_TRY_ASSIGN(has_stream, streams->make_stream(ep));
    }
    table.add(*devices_[ep], has_stream);
  }
  add_neighbours(options, table);
  TENON_TRY_ASSIGN(GraphCapture * capture, choose_graph_capture(graph));
  // Graphs share their memory.
  runs.start(active_, one_at_a_time || capture != nullptr, capture);
  runs.streams().give(std::move(streams));
  return table;
}

void SessionEps::describe_assignments(const Graph& graph, const Partition& partition) {
  assignments_.reserve(partition.grants().size() + graph.nodes.size());
  for (const Partition::Grant& grant : partition.grants()) {
    EpAssignment& assignment = assignments_.emplace_back();
    assignment.ep_name = names_[grant.ep];
    for (NodeId node : grant.claim.nodes) assignment.nodes.push_back(assigned(graph.nodes[node]));
  }
  for (NodeId n : graph.nodes.ids()) {
    if (partition.taken()[n]) continue;
    EpAssignment& assignment = assignments_.emplace_back();
    assignment.ep_name = kCpuEpName;
    assignment.nodes.push_back(assigned(graph.nodes[n]));
  }
}

Status SessionEps::check_nodes(const Graph& graph) const {
  for (ValueId id : graph.inputs) {
    const Value& value = graph.value(id);
    TENON_UNSUPPORTED_IF(!value.is_tensor && value.object == nullptr,
                         "Input \"{}\" is no tensor, sequence, optional or map; only those are supported.", value.name);
  }
  const Providers providers{host_.get(), devices_};
  for (const Node& node : graph.nodes) {
    if (is_control_flow(node)) continue;
    Status can_run = providers.of(node).can_run(graph, node);
    // The node may be one that the EP would have taken.
    if (!can_run.ok() && !failed_claim_.empty()) can_run = std::move(can_run).with_context("after " + failed_claim_);
    TENON_TRY(std::move(can_run));
  }
  return {};
}

Status SessionEps::prepare_region_bodies(Graph& graph, const PassOptions& passes) const {
  for (Node& region : graph.nodes) {
    const EpId ep = ep_of(region);
    if (ep == kCpuEp || !device(ep).host_runs(region)) continue;
    for (Attribute& attribute : region.attributes.edit_bodies()) {
      if (!attribute.graph) continue;
      attribute.graph = std::make_shared<Graph>(*attribute.graph);
      for (Node& node : attribute.graph->nodes) {
        TENON_TRY_CONTEXT(run_subgraph_passes(node, PassPhase::kLoad, passes), "in {}", node.label(*attribute.graph));
      }
    }
  }
  return {};
}

Status SessionEps::check_control_flow_nodes(const Graph& graph) const {
  for (const Node& node : graph.nodes) {
    if (is_control_flow(node)) TENON_TRY(check_control_flow(graph, node, *host_));
    const EpId ep = ep_of(node);
    if (ep == kCpuEp || !device(ep).host_runs(node)) continue;
    const Graph& body = region_body(node);
    for (const Node& inner : body.nodes) TENON_TRY(check_control_flow(body, inner, *host_));
  }
  return {};
}

// After the passes, as in ONNX Runtime: a node that is folded away needs no EP.
Status SessionEps::check_fallback(const Graph& graph, const SessionOptions& options) const {
  if (!cpu_fallback_disabled(options)) return {};
  for (const Node& node : graph.nodes) {
    const EpId ep = ep_of(node);
    // Kernels on host memory that the library of another EP registers are the CPU EP's.
    if (ep == kCpuEp || names_[ep] == kCpuEpName) return fallback_refused(first_output_name(graph, node));
  }
  return {};
}

}  // namespace tenon
