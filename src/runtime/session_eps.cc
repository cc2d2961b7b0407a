// Asks the EPs of a session which nodes they claim.
#include <algorithm>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <utility>

#include "base/log.h"
#include "device/copy.h"
#include "ops/attributes.h"
#include "ops/shape_inference.h"
#include "plan/kernel_node.h"
#include "plan/regions.h"
#include "plan/space_table.h"
#include "runtime/ep_registry.h"
#include "runtime/host_operators.h"
#include "runtime/memory.h"
#include "runtime/session_impl.h"

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

}  // namespace

Status SessionImpl::make_device_providers() {
  for (const EpChoice& choice : options_.eps) {
    if (choice.ep_name == kCpuEpName) continue;  // it is always there, and always the last
    for (const std::string& name : device_ep_names_) {
      TENON_INVALID_IF(name == choice.ep_name, "SessionOptions::eps names the EP \"{}\" twice.", choice.ep_name);
    }
    TENON_TRY_ASSIGN(const std::shared_ptr<EpFactory> factory, EpRegistry::instance().find(choice.ep_name));
    TENON_UNSUPPORTED_IF(factory->devices().empty() && factory->needs_device(),
                         "The EP \"{}\" offers no device on this machine.", choice.ep_name);
    std::vector<size_t> devices = choice.devices;
    if (devices.empty() && !factory->devices().empty()) devices.push_back(0);
    for (size_t device : devices) {
      TENON_INVALID_IF(device >= factory->devices().size(),
                       "SessionOptions::eps asks for device {} of the EP \"{}\", which has {}.", device, choice.ep_name,
                       factory->devices().size());
    }
    Result<std::unique_ptr<DeviceProvider>> provider = factory->create_provider(choice, devices, options_);
    if (!provider.ok()) {
      return std::move(provider).status().with_context(format("while making the EP \"{}\"", choice.ep_name));
    }
    if (*provider == nullptr) return device_error("The EP \"{}\" made no provider.", choice.ep_name);
    planner_options_.devices.push_back(provider->get());
    device_providers_.push_back(std::move(provider).value());
    device_ep_names_.push_back(choice.ep_name);
  }
  for (size_t i = 0, named = device_providers_.size(); i < named; ++i) {
    TENON_TRY_ASSIGN(std::unique_ptr<DeviceProvider> companion, device_providers_[i]->host_companion());
    if (companion == nullptr) continue;
    planner_options_.devices.push_back(companion.get());
    device_providers_.push_back(std::move(companion));
    device_ep_names_.emplace_back(kCpuEpName);
  }
  return {};
}

Status SessionImpl::infer_provider_types() {
  for (bool changed = true; changed;) {
    changed = false;
    for (size_t i = 0; i < device_providers_.size(); ++i) {
      const auto infer = [&](Graph& graph) -> Status {
        Result<bool> inferred = device_providers_[i]->infer_types(graph);
        if (!inferred.ok())
          return std::move(inferred).status().with_context(
              format("while the EP \"{}\" infers the types of its operators", device_ep_names_[i]));
        changed = changed || *inferred;
        return {};
      };
      TENON_TRY(infer(model_.graph));
      TENON_TRY(for_each_body(model_.graph, infer));
    }
    if (changed) TENON_TRY(infer_shapes(model_.graph));
  }
  return {};
}

Status SessionImpl::partition() {
  Graph& graph = model_.graph;
  Partition partition(graph);
  for (size_t i = 0; i < device_providers_.size(); ++i) {
    device_providers_[i]->set_model(model_);
    Result<std::vector<Claim>> claims = device_providers_[i]->claim(graph, partition.taken());
    if (!claims.ok()) {
      // As elsewhere: an EP that cannot say what it wants gets nothing, and the model still runs.
      log_warning("dispatch", "The EP \"{}\" takes no nodes, because its claim failed: {}", device_ep_names_[i],
                  claims.status().to_string());
      continue;
    }
    TENON_TRY(partition.add(static_cast<int32_t>(i) + 1, device_ep_names_[i], std::move(claims).value()));
  }
  for (size_t i = 0; i < device_providers_.size(); ++i) {
    Result<std::vector<Claim>> claims = device_providers_[i]->claim_rest(graph, partition.taken());
    if (!claims.ok())
      return std::move(claims).status().with_context(
          format("while the EP \"{}\" is asked for operators of its own", device_ep_names_[i]));
    TENON_TRY(partition.add(static_cast<int32_t>(i) + 1, device_ep_names_[i], std::move(claims).value()));
  }
  for (const std::string& why : partition.dropped()) TENON_TRACE(kDispatch, "{}", why);
  describe_assignments(partition);
  TENON_TRY_ASSIGN(const std::vector<Region> regions, partition.build(graph));
  std::vector<std::vector<Region>> in_bodies;
  TENON_TRY(claim_in_bodies(graph, planner_options_.devices, device_ep_names_, static_cast<int32_t>(regions.size()),
                            in_bodies));
  for (size_t i = 0; i < device_providers_.size(); ++i) {
    std::vector<Region> own;
    for (size_t r = 0; r < regions.size(); ++r) {
      if (partition.grants()[r].provider == static_cast<int32_t>(i) + 1) own.push_back(regions[r]);
    }
    own.insert(own.end(), in_bodies[i].begin(), in_bodies[i].end());
    TENON_TRACE(kDispatch, "The EP \"{}\" runs {} regions.", device_ep_names_[i], own.size());
    TENON_TRY_CONTEXT(device_providers_[i]->compile(own), "while the EP \"{}\" compiles {} regions",
                      device_ep_names_[i], own.size());
  }
  for (const auto& provider : device_providers_) {
    for (CopyRecord record : provider->constant_copies()) {
      record.once = true;
      load_copies_.records.push_back(record);
    }
  }
  *once_copies_.lock() = load_copies_;
  for (size_t i = 0; i < device_providers_.size(); ++i) {
    TENON_TRY_CONTEXT(device_providers_[i]->loaded(), "after the EP \"{}\" has compiled its regions",
                      device_ep_names_[i]);
  }
  TENON_TRY(make_space_table(regions, partition));
  TENON_TRY(choose_graph_capture());
  if (regions.empty()) return {};
  for (Node& node : graph.nodes) {
    if (!is_region(node)) continue;
    const Region& region = regions[static_cast<size_t>(Attributes(node).integer("region"))];
    if (region.drop_constants) drop_large_constants(*node.find("body")->graph);
  }
  const std::vector<int32_t> uses = graph.use_counts();
  for (size_t v = 0; v < graph.values.size(); ++v) {
    if (uses[v] == 0) graph.values[v].constant = nullptr;
  }
  return infer_shapes(graph);
}

// The first that has regions and captures graphs. What the host does between, no graph of a device has in it, so the EP
// decides whether it wants all nodes or none.
Status SessionImpl::choose_graph_capture() {
  for (int32_t number : active_providers_) {
    graph_capture_ = device_provider(number).graph_capture();
    if (graph_capture_ == nullptr) continue;
    serial_ = true;  // graphs share their memory
    const auto others = std::count_if(model_.graph.nodes.begin(), model_.graph.nodes.end(),
                                      [&](const Node& node) { return provider_number(node) != number; });
    TENON_UNSUPPORTED_IF(
        others > 0 && graph_capture_->needs_whole_model(),
        "The EP \"{}\" is to capture graphs, for which it needs the whole model; {} nodes are not its own.",
        device_ep_names_[static_cast<size_t>(number) - 1], others);
    return {};
  }
  return {};
}

// Another device of a session's EP may hold what the caller binds: it is copied, by the EP's data transfer.
void SessionImpl::add_neighbours() {
  for (const EpChoice& choice : options_.eps) {
    if (choice.ep_name == kCpuEpName) continue;
    const Result<std::shared_ptr<EpFactory>> found = EpRegistry::instance().find(choice.ep_name);
    if (!found.ok()) continue;  // its library has been unregistered meanwhile, and only our own providers are left
    const std::shared_ptr<EpFactory>& factory = *found;
    for (size_t device = 0; factory->devices().size() > 1 && device < factory->devices().size(); ++device) {
      for (auto& allocator : factory->shared_allocators(device)) {
        if (allocator != nullptr) spaces_.add_neighbour(std::move(allocator));
      }
    }
  }
}

// What has no regions never runs, and needs no stream.
Status SessionImpl::make_space_table(std::span<const Region> regions, const Partition& partition) {
  auto streams = std::make_unique<RunStreams>(device_providers_.size());
  for (size_t i = 0; i < device_providers_.size(); ++i) {
    const auto number = static_cast<int32_t>(i) + 1;
    bool used = false;
    for (size_t r = 0; r < regions.size(); ++r) used = used || partition.grants()[r].provider == number;
    bool has_stream = false;
    if (used) {
      active_providers_.push_back(number);
      serial_ = serial_ || !device_providers_[i]->concurrent_runs();
      TENON_TRY_ASSIGN(has_stream, streams->make_stream(*device_providers_[i], number));
    }
    spaces_.add(*device_providers_[i], has_stream);
  }
  idle_streams_.lock()->push_back(std::move(streams));
  add_neighbours();
  for (const MemorySpace& space : spaces_.spaces) {
    if (space.alignment > 0) alignments_.push_back(space.alignment);
  }
  std::sort(alignments_.begin(), alignments_.end(), std::greater<>());
  alignments_.erase(std::unique(alignments_.begin(), alignments_.end()), alignments_.end());
  return {};
}

uint32_t SessionImpl::alignment_of(const void* address) const {
  for (uint32_t alignment : alignments_) {
    if (reinterpret_cast<uintptr_t>(address) % alignment == 0) return alignment;
  }
  return 0;
}

MemorySpace SessionImpl::space_of(const Tensor& tensor, int64_t& word) const {
  MemorySpace space = tensor.space();
  space.alignment = alignment_of(tensor.data());
  word = space_word(spaces_.find(space), space.alignment);
  return space;
}

int64_t SessionImpl::space_word(int32_t space, uint32_t alignment) const {
  return static_cast<int64_t>(space) << 32 | alignment;
}

std::unique_ptr<RunStreams> SessionImpl::take_streams() {
  {
    auto idle = idle_streams_.lock();
    if (!idle->empty()) {
      std::unique_ptr<RunStreams> streams = std::move(idle->back());
      idle->pop_back();
      return streams;
    }
  }
  return std::make_unique<RunStreams>(device_providers_.size());
}

void SessionImpl::give_streams(std::unique_ptr<RunStreams> streams) {
  idle_streams_.lock()->push_back(std::move(streams));
}

Tensor SessionImpl::find_placed_constant(const ConstantRef& constant, int32_t space) const {
  for (size_t i = 0; i < device_providers_.size(); ++i) {
    const std::vector<int32_t>& own = spaces_.of_provider[i];
    const auto index = std::find(own.begin(), own.end(), space) - own.begin();
    if (index == static_cast<std::ptrdiff_t>(own.size())) continue;
    Tensor known = device_providers_[i]->placed_constant(constant, static_cast<int32_t>(index));
    if (known.data() != nullptr) return known;
  }
  return {};
}

bool SessionImpl::can_use_stream(int32_t number, const DeviceStream& stream) {
  return spaces_.executor(number) == number && device_provider(number).can_use_stream(stream);
}

Status SessionImpl::finish(UnfinishedRun run) {
  Status status = run.wait();
  for (size_t space = 0; space < run.arenas.size() && status.ok(); ++space) {
    for (Arena& arena : run.arenas[space]) arenas_[space].release(std::move(arena));
  }
  return status;
}

Status SessionImpl::synchronize() {
  Status first;
  for (UnfinishedRun& run : unfinished_runs_.take_all()) {
    Status status = finish(std::move(run));
    if (first.ok()) first = std::move(status);
  }
  return first;
}

SessionImpl::~SessionImpl() { (void)synchronize(); }

// The lock is held while a constant is copied: whoever wants the same one then finds it.
Result<Tensor> SessionImpl::place_constant(const ConstantRef& constant, const std::string& name, int32_t space,
                                           bool disallow_copies) {
  auto placed = placed_constants_.lock();
  PlacedConstant& entry = (*placed)[{constant.get(), space}];
  // Another constant may have been made at the address of one that is gone.
  if (!entry.source.expired()) return entry.tensor;
  Result<Tensor> made = [&]() -> Result<Tensor> {
    if (Tensor known = find_placed_constant(constant, space); known.data() != nullptr) return known;
    TENON_TRY_ASSIGN(const Tensor source, Tensor::view(constant->type, constant->shape,
                                                       const_cast<std::byte*>(constant->data), constant->size_bytes));
    if (disallow_copies && constant->size_bytes > 0)
      return copy_disallowed(name.c_str(), source.space(), spaces_.at(space), CopyReason::kNotCompatible);
    TENON_TRY_ASSIGN(Tensor target, allocate_in(space, constant->type, constant->shape));
    const int32_t mover = spaces_.mover(source.space(), target.space());
    DataTransfer* transfer = mover > 0 ? spaces_.transfers[static_cast<size_t>(mover - 1)] : nullptr;
    CopyLedger made_now;
    TENON_TRY_CONTEXT(copy_tensor(target, source, CopyReason::kNotCompatible, keep_text(name), &made_now, transfer),
                      "while placing the constant \"{}\"", name);
    auto once = once_copies_.lock();
    for (CopyRecord& record : made_now.records) {
      record.once = true;
      once->records.push_back(record);
    }
    return target;
  }();
  if (!made.ok()) {
    placed->erase({constant.get(), space});
    return made;
  }
  entry.source = constant;
  entry.tensor = *made;
  return made;
}

const char* SessionImpl::keep_text(const std::string& text) { return texts_.lock()->insert(text).first->c_str(); }

void SessionImpl::take_once_copies(CopyLedger& ledger) {
  auto once = once_copies_.lock();
  ledger.records.insert(ledger.records.end(), once->records.begin(), once->records.end());
  once->records.clear();
}

PlannerOptions SessionImpl::planner_options(bool disallow_copies) {
  PlannerOptions options = planner_options_;
  if (!has_devices()) return options;
  options.spaces = &spaces_;
  options.ep_names = {"cpu"};
  options.ep_names.insert(options.ep_names.end(), device_ep_names_.begin(), device_ep_names_.end());
  options.place_constant = [this, disallow_copies](const ConstantRef& constant, const std::string& name,
                                                   int32_t space) {
    return place_constant(constant, name, space, disallow_copies);
  };
  return options;
}

PlannerOptions SessionImpl::explaining_options(CopyLedger& copies) {
  PlannerOptions options = planner_options(/*disallow_copies=*/false);
  if (!has_devices()) return options;
  auto placed = std::make_shared<std::set<std::pair<const Constant*, int32_t>>>();
  options.place_constant = [this, placed, &copies](const ConstantRef& constant, const std::string& name,
                                                   int32_t space) -> Result<Tensor> {
    if (Tensor known = find_placed_constant(constant, space); known.data() != nullptr) return known;
    MemorySpace there = spaces_.at(space);
    there.alignment = 0;
    if (placed->emplace(constant.get(), space).second) {
      note_copy({.bytes = constant->size_bytes,
                 .source = MemorySpace{},
                 .target = there,
                 .reason = CopyReason::kNotCompatible,
                 .what = keep_text(name),
                 .once = true},
                &copies);
    }
    // Nobody reads it.
    return Tensor::view(constant->type, constant->shape, const_cast<std::byte*>(constant->data), constant->size_bytes,
                        nullptr, there);
  };
  return options;
}

// Where what reads an input, or makes an output, wants it. An input that the CPU EP reads too is wanted there.
Status SessionImpl::describe_spaces() {
  const Graph& graph = model_.graph;
  const ValueSpace plain{std::string(kCpuEpName), MemorySpace{}};
  input_spaces_.assign(inputs_.size(), plain);
  output_spaces_.assign(outputs_.size(), plain);
  if (active_providers_.empty()) return {};
  std::map<ValueId, ValueSpace> wanted, made;
  for (const Node& node : graph.nodes) {
    const int32_t number = provider_number(node);
    SpaceChoice choice{std::vector<int32_t>(node.inputs.size(), kHostSpace),
                       std::vector<int32_t>(node.outputs.size(), kHostSpace)};
    const KernelNodeData data(graph, node, KernelNode{});
    if (number > 0) {
      TENON_TRY_ASSIGN(choice, chosen_spaces(*device_providers_[static_cast<size_t>(number - 1)], data.view));
    }
    const auto describe = [&](int32_t index) -> Result<ValueSpace> {
      if (number == 0) return plain;
      const auto& provider = *device_providers_[static_cast<size_t>(number - 1)];
      TENON_TRY_ASSIGN(const int32_t space, spaces_.choice(provider, number, index));
      return ValueSpace{device_ep_names_[static_cast<size_t>(number - 1)], spaces_.shown(space)};
    };
    for (size_t i = 0; i < node.inputs.size(); ++i) {
      if (node.inputs[i] == kNoValue) continue;
      TENON_TRY_ASSIGN(const ValueSpace space, describe(choice.inputs[i]));
      if (number == 0 || !wanted.contains(node.inputs[i])) wanted[node.inputs[i]] = space;
    }
    for (size_t o = 0; o < node.outputs.size(); ++o) {
      if (node.outputs[o] == kNoValue) continue;
      TENON_TRY_ASSIGN(made[node.outputs[o]], describe(choice.outputs[o]));
    }
  }
  for (size_t i = 0; i < graph.inputs.size(); ++i) {
    if (const auto found = wanted.find(graph.inputs[i]); found != wanted.end()) input_spaces_[i] = found->second;
  }
  for (size_t i = 0; i < graph.outputs.size(); ++i) {
    if (const auto found = made.find(graph.outputs[i]); found != made.end()) output_spaces_[i] = found->second;
  }
  return {};
}

void SessionImpl::describe_assignments(const Partition& partition) {
  const Graph& graph = model_.graph;
  for (const Partition::Grant& grant : partition.grants()) {
    EpAssignment& assignment = assignments_.emplace_back();
    assignment.ep_name = device_ep_names_[static_cast<size_t>(grant.provider) - 1];
    for (int32_t node : grant.claim.nodes) {
      assignment.nodes.push_back(assigned(graph.nodes[static_cast<size_t>(node)]));
    }
  }
  for (size_t n = 0; n < graph.nodes.size(); ++n) {
    if (partition.taken()[n]) continue;
    assignments_.push_back({std::string(kCpuEpName), {assigned(graph.nodes[n])}});
  }
}

Result<Tensor> SessionImpl::allocate(DataType type, const Shape& shape, const MemorySpace& space) {
  const int32_t index = spaces_.find(space);
  TENON_INVALID_IF(index < 0, "The session has no allocator for {}.", space.to_string());
  if (index == 0) return Tensor::allocate(type, shape);
  return allocate_in(index, type, shape);
}

Result<Tensor> SessionImpl::allocate_in(int32_t space, DataType type, const Shape& shape) const {
  if (space == 0) return Tensor::allocate(type, shape);
  TENON_TRY_ASSIGN(const size_t bytes, tensor_size_bytes(type, shape));
  TENON_TRY_ASSIGN(std::shared_ptr<std::byte> memory, allocate_bytes_in(space, bytes));
  return Tensor::view(type, shape, memory.get(), bytes, memory, spaces_.shown(space));
}

Result<std::shared_ptr<std::byte>> SessionImpl::allocate_bytes_in(int32_t space, size_t size_bytes) const {
  if (space == 0) return allocate_zeroed(size_bytes);
  return allocate_device(*spaces_.allocators[static_cast<size_t>(space)], size_bytes);
}

}  // namespace tenon
