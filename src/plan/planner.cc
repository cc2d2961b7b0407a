#include "plan/planner.h"

#include <algorithm>
#include <atomic>

#include "base/system.h"
#include "base/trace.h"
#include "device/memory_space.h"
#include "graph/unused_values.h"
#include "plan/bind_shapes.h"
#include "plan/control_flow.h"
#include "plan/cut.h"
#include "plan/evaluate.h"
#include "plan/kernel_node.h"
#include "plan/layouts.h"
#include "plan/ordering.h"
#include "plan/pass_table.h"
#include "plan/storage.h"
#include "plan/views.h"

namespace tenon {

uint64_t next_plan_id() {
  static std::atomic<uint64_t> last{0};
  return last.fetch_add(1, std::memory_order_relaxed) + 1;
}

namespace {

// 0 where it is not known yet.
Result<size_t> known_size_bytes(const Value& value) {
  if (value.constant || !value.fully_known() || data_type_bits(value.type) == 0) return size_t{0};
  const Shape shape = value.shape();
  Shape padded = shape;
  // Blocked layouts round the channels up; the size must be computable for them too.
  if (padded.rank() >= 3 && padded[1] > 0 && padded[1] < INT64_MAX - 8) padded[1] = (padded[1] + 7) / 8 * 8;
  TENON_TRY(tensor_size_bytes(value.type, padded).status());
  return tensor_size_bytes(value.type, shape);
}

// Each size can be computed, and no output of the CPU EP is larger than the memory that there is: asking for it before
// kernels are made keeps their tables (a Resize has one for each axis) within it too.
Status check_sizes(const Graph& graph, const Providers& providers) {
  for (ValueId id : graph.inputs) {
    const Value& value = graph.value(id);
    TENON_TRY_CONTEXT(known_size_bytes(value).status(), "for input \"{}\"", value.name);
  }
  for (const Node& node : graph.nodes) {
    for (ValueId id : node.outputs) {
      if (id == kNoValue) continue;
      const Value& value = graph.value(id);
      Result<size_t> bytes = known_size_bytes(value);
      if (bytes.ok() && *bytes > memory_bytes() && &providers.of(node) == providers.cpu) {
        bytes = resource_exhausted("A {} tensor of shape {} takes {} bytes; there are {} bytes of memory.",
                                   data_type_name(value.type), value.shape().to_string(), *bytes, memory_bytes());
      }
      if (!bytes.ok())
        return std::move(bytes).status().with_context(
            format("for output \"{}\" of node {}", value.name, node.label(graph)));
    }
  }
  return {};
}

PlanView view_of(NodeId id, const Node& node, Elided elided, const StorageAssignment& storage) {
  PlanView view{.node = id, .joins_inputs = elided == Elided::kConcat};
  for (ValueId out : node.outputs) view.outputs.push_back(storage.location(out));
  view.value = view.joins_inputs ? node.outputs[0] : node.inputs[0];
  const Location whole = storage.location(view.value);
  for (ValueId part : view.joins_inputs ? node.inputs : node.outputs)
    view.offsets_bytes.push_back(part == kNoValue ? 0 : storage.location(part).offset_bytes - whole.offset_bytes);
  return view;
}

class PlanBuilder {
 public:
  PlanBuilder(CutGraph cut, const PlannerOptions& options, const BoundSpaces& bound)
      : bound_(bound),
        cut_values_(std::move(cut.cut_values)),
        output_slots_(std::move(cut.output_slots)),
        options_(options),
        plan_(std::make_shared<Plan>()) {
    plan_->graph = std::move(cut.now);
    plan_->cut = std::move(cut.cut);
    plan_->provider = options.provider->name();
  }

  Result<std::shared_ptr<Plan>> build() {
    KernelNode base;
    base.pool = options_.pool;
    base.weights = options_.weights;
    base.winograd = options_.winograd;
    Graph& graph = plan_->graph;
    const Providers providers = options_.providers();
    TENON_TRY(check_sizes(graph, providers));
    lower_control_flow(graph);
    const std::vector<ValueId> outputs_before = graph.outputs;
    {
      const TraceSpan span("plan", "layouts");
      TENON_TRY(assign_layouts(graph, providers, base));
    }
    // A cut value that was blocked is now a reordered one.
    for (size_t i = 0; i < cut_values_.size(); ++i) {
      cut_values_[i] = graph.outputs[graph.outputs.size() - cut_values_.size() + i];
    }
    if (!options_.devices.empty()) {
      TENON_TRY_ASSIGN(placement_, place_values(graph, output_slots_, providers, *options_.spaces, bound_, base));
      plan_->spaces = options_.spaces->spaces;
      plan_->ep_names = options_.ep_names;
    } else {
      plan_->spaces.push_back({});
    }
    // Nothing is added from here on, and the plan stays as long as its sizes come back.
    graph.values.shrink_to_fit();
    graph.nodes.shrink_to_fit();
    StorageAssignment storage(graph, output_slots_, placement_.space, plan_->spaces,
                              options_.devices.empty() ? PerSpace<bool>() : options_.spaces->handles);
    std::vector<uint32_t> alignments;
    alignments.reserve(bound_.inputs.size());
    for (const MemorySpace& space : bound_.inputs) alignments.push_back(space.alignment);
    storage.set_input_alignments(std::move(alignments));
    TENON_TRY(storage.elide());
    PerNode<std::unique_ptr<Kernel>> kernels(graph.nodes.size());
    PerNode<const Kernel*> borrowed(graph.nodes.size(), nullptr);
    for (NodeId n : graph.nodes.ids()) {
      if (storage.elided(n) != Elided::kNo || is_copy(graph.nodes[n])) continue;
      TENON_TRY(check_addressable(storage, graph.nodes[n]));
      TENON_TRY_ASSIGN(kernels[n], make_kernel(providers, graph.nodes[n], base));
      borrowed[n] = kernels[n].get();
      if (kernels[n]->scratch_bytes() > memory_bytes())
        return resource_exhausted("Node {} needs {} bytes of scratch; there are {} bytes of memory.",
                                  graph.nodes[n].label(graph), kernels[n]->scratch_bytes(), memory_bytes());
    }
    {
      const TraceSpan span("plan", "memory");
      storage.reuse_in_place(borrowed);
      TENON_TRY(storage.finish(borrowed));
    }
    fill(storage, std::move(kernels), outputs_before);
    if (!options_.devices.empty()) {
      TENON_TRY(place_constants());
      order_steps(*plan_, options_.devices.size());
    }
    if (options_.budget != nullptr) plan_->share = PlanShare(options_.budget, held_bytes(*plan_));
    return plan_;
  }

 private:
  Result<std::unique_ptr<Kernel>> make_kernel(const Providers& providers, const Node& node,
                                              const KernelNode& base) const {
    const KernelNodeData data(plan_->graph, node, base);
    TraceSpan span("plan", "kernel");
    if (!span) return create_kernel(providers, data.view);
    const std::string label = node.label(plan_->graph);
    const TraceSubject::Scope subject({.session = TraceSubject::current().session, .node = label});
    TENON_TRY_ASSIGN(std::unique_ptr<Kernel> kernel, create_kernel(providers, data.view));
    span.args().add("node", label).add("kernel", kernel->name()).add("ep", providers.of(node).name());
    return kernel;
  }

  Result<std::unique_ptr<Kernel>> create_kernel(const Providers& providers, const KernelNode& node) const {
    if (!is_control_flow(*node.node)) return providers.of(*node.node).create_kernel(node);
    TENON_UNSUPPORTED_IF(options_.subgraphs == nullptr, "Node {} has subgraphs, which nobody runs here.",
                         node.node->label(*node.graph));
    return options_.subgraphs->create(node, nullptr);
  }

  // The CPU EP's kernels read and write memory that the host can address, or the planner is wrong.
  Status check_addressable(const StorageAssignment& storage, const Node& node) const {
    if (ep_of(node) != kCpuEp) return {};
    for (const auto* ids : {&node.inputs, &node.outputs}) {
      for (ValueId id : *ids) {
        const MemorySpace& space = plan_->spaces[storage.memory_space(id)];
        if (!host_can_address(space)) {
          return internal_error("Node {} of the CPU EP was planned on memory in {}.", node.label(plan_->graph),
                                space.to_string());
        }
      }
    }
    return {};
  }

  StepCopy step_copy(const Node& node) const {
    StepCopy copy;
    copy.reason = copy_reason(node);
    copy.mover = copy_mover(node);
    copy.spec = spec_of(plan_->graph.value(node.inputs[0]));
    copy.source = placement_.space[node.inputs[0]];
    copy.target = placement_.space[node.outputs[0]];
    if (options_.keep_text) copy.what = options_.keep_text(plan_->graph.value(node.inputs[0]).name);
    return copy;
  }

  void fill_spaces(PlanStep& step, const Node& node, const StorageAssignment& storage) const {
    step.ep = ep_of(node);
    if (step.copy) step.executor = options_.spaces->executor(step.copy->mover);
    if (step.ep == kCpuEp) return;
    // A region that the host runs for the EP is executed by the CPU EP: it reads what the host has waited for.
    const bool by_host = options_.devices[step.ep]->host_runs(node);
    step.executor = by_host ? kCpuEp : options_.spaces->executor(step.ep);
    for (ValueId id : node.inputs) {
      step.input_spaces.push_back(plan_->spaces[storage.memory_space(id)]);
    }
    for (ValueId id : node.outputs) {
      step.output_spaces.push_back(plan_->spaces[storage.memory_space(id)]);
    }
  }

  // Constants that an EP cannot read in host memory.
  Status place_constants() {
    Plan& plan = *plan_;
    for (PlanStep& step : plan.steps) {
      const auto& wanted = placement_.wanted[step.node];
      for (size_t i = 0; i < wanted.size(); ++i) {
        if (step.inputs[i].kind != StorageKind::kConstant) continue;
        if (devices_are_memory_compatible(plan.spaces[kHostSpace], options_.spaces->at(wanted[i]))) continue;
        const Value& value = plan.graph.value(ValueId(step.inputs[i].index));
        if (!options_.place_constant) return internal_error("Nobody places the constant \"{}\".", value.name);
        TENON_TRY_ASSIGN(Tensor tensor, options_.place_constant(value.constant, value.name, wanted[i]));
        step.inputs[i] = {StorageKind::kPlacedConstant, static_cast<int32_t>(plan.placed_constants.size()), 0};
        step.input_spaces[i] = options_.spaces->at(wanted[i]);
        plan.placed_constants.push_back(std::move(tensor));
      }
    }
    return {};
  }

  void fill(const StorageAssignment& storage, PerNode<std::unique_ptr<Kernel>> kernels,
            const std::vector<ValueId>& outputs_before) {
    Plan& plan = *plan_;
    const Graph& graph = plan.graph;
    PerNode<StepId> step_of(graph.nodes.size());  // the first step at or after a node
    size_t steps = 0;
    for (NodeId n : graph.nodes.ids()) steps += storage.elided(n) == Elided::kNo ? 1 : 0;
    plan.steps.reserve(steps);
    for (NodeId n : graph.nodes.ids()) {
      step_of[n] = plan.steps.end_id();
      const Node& node = graph.nodes[n];
      if (storage.elided(n) != Elided::kNo) {
        plan.views.push_back(view_of(n, node, storage.elided(n), storage));
        continue;
      }
      PlanStep step;
      step.node = n;
      step.scratch = storage.scratch(n);
      step.in_place = storage.in_place(n);
      step.inputs.reserve(node.inputs.size());
      step.outputs.reserve(node.outputs.size());
      step.dynamic_outputs.reserve(node.outputs.size());
      for (ValueId id : node.inputs) step.inputs.push_back(storage.location(id));
      for (ValueId id : node.outputs) {
        step.outputs.push_back(storage.location(id));
        const bool dynamic = step.outputs.back().kind == StorageKind::kDynamic;
        const DynamicId made = dynamic ? DynamicId(step.outputs.back().index) : DynamicId();
        step.dynamic_outputs.push_back(made);
        if (!dynamic) continue;
        plan.dynamic_spaces.resize(std::max(plan.dynamic_spaces.size(), made.index() + 1), kHostSpace);
        plan.dynamic_spaces[made] = storage.memory_space(id);
      }
      if (is_copy(node)) step.copy = std::make_unique<StepCopy>(step_copy(node));
      if (!options_.devices.empty()) fill_spaces(step, node, storage);
      step.kernel = std::move(kernels[n]);
      plan.steps.push_back(std::move(step));
    }
    const auto as_step = [&](NodeId node) {
      if (node == kNever<NodeId>) return kNever<StepId>;
      return node == kAtEnd<NodeId> ? kAtEnd<StepId> : step_of[node];
    };
    for (size_t i = 0; i < graph.inputs.size(); ++i) {
      const Value& value = graph.value(graph.inputs[i]);
      const SpaceId space = storage.memory_space(graph.inputs[i]);
      plan.inputs.push_back({value.name, spec_of(value), space, as_step(storage.last_read(i))});
    }
    for (size_t i = 0; i < graph.outputs.size(); ++i) {
      if (!output_slots_[i].valid()) continue;
      PlanOutput output;
      output.name = graph.value(outputs_before[i]).name;
      output.slot = output_slots_[i];
      output.spec = spec_of(graph.value(graph.outputs[i]));
      output.space = storage.memory_space(graph.outputs[i]);
      output.first_write = as_step(storage.first_write(output.slot));
      plan.outputs.push_back(std::move(output));
    }
    find_readers();
    for (PlanOutput& output : plan.outputs) find_shared_memory(output);
    plan.copies = storage.copies();
    plan.arenas = storage.arena_bytes();
    plan.arena_bytes = plan.arenas[kHostSpace];
    plan.handle_buffers = storage.handle_buffers();
    plan.unshared_bytes = storage.unshared_bytes();
    if (plan.cut) {
      for (size_t i = 0; i < cut_values_.size(); ++i) {
        plan.cut->values[i].location = storage.location(cut_values_[i]);
        plan.cut->values[i].space = storage.memory_space(cut_values_[i]);
      }
    }
  }

  void find_readers() {
    readers_.resize(plan_->inputs.size());
    for (StepId j : plan_->steps.ids()) {
      for (const Location& location : plan_->steps[j].inputs) {
        if (location.kind != StorageKind::kInput) continue;
        std::vector<StepId>& readers = readers_[location.index];
        if (readers.empty() || readers.back() != j) readers.push_back(j);
      }
    }
  }

  // A step of the host is over before the next step, and a stream keeps its order; two executors know no order.
  SharedMemory shared_memory(const PlanOutput& output, int32_t input) const {
    SharedMemory shared;
    if (plan_->inputs[input].last_read == kAtEnd<StepId>) return shared;
    const PlanStep& writer = plan_->steps[output.first_write];
    bool writer_reads = false;
    for (StepId j : readers_[input]) {
      const PlanStep& step = plan_->steps[j];
      writer_reads = writer_reads || j == output.first_write;
      if (j == output.first_write) continue;
      const bool over = step.executor == kCpuEp || step.executor == writer.executor;
      if (j > output.first_write || !over) return shared;
    }
    shared.kind = SharedMemory::Kind::kAnything;
    if (!writer_reads) return shared;
    shared.kind = SharedMemory::Kind::kNothing;
    if (writer.kernel == nullptr) return shared;
    const Location whole{StorageKind::kOutput, output.slot.value(), 0};
    for (size_t i = 0; i < writer.inputs.size(); ++i) {
      const Location& from = writer.inputs[i];
      if (from.kind != StorageKind::kInput || from.index != input) continue;
      const auto to = std::find(writer.outputs.begin(), writer.outputs.end(), whole) - writer.outputs.begin();
      if (from.offset_bytes != 0 || to == static_cast<std::ptrdiff_t>(writer.outputs.size())) return shared;
      shared.in_place.emplace_back(static_cast<int32_t>(i), static_cast<int32_t>(to));
    }
    shared.kind = SharedMemory::Kind::kExactly;
    return shared;
  }

  void find_shared_memory(PlanOutput& output) const {
    if (output.first_write == kAtEnd<StepId>) return;
    for (size_t i = 0; i < plan_->inputs.size(); ++i)
      output.shared.push_back(shared_memory(output, static_cast<int32_t>(i)));
  }

  const BoundSpaces& bound_;
  std::vector<ValueId> cut_values_;
  std::vector<OutputSlot> output_slots_;
  Placement placement_;
  std::vector<std::vector<StepId>> readers_;  // of each input: the steps
  const PlannerOptions& options_;
  std::shared_ptr<Plan> plan_;
};

Result<std::shared_ptr<Plan>> plan_inferred(const char* trace_name, Graph graph,
                                            std::span<const OutputSlot> output_slots, const PlannerOptions& options,
                                            const BoundSpaces& bound) {
  TraceSpan span("plan", trace_name);
  if (span) {
    TraceArgs shapes;
    for (ValueId id : graph.inputs) shapes.add(graph.value(id).name, graph.value(id).type_text());
    span.args().add_json("inputs", "{" + shapes.members().substr(shapes.members().empty() ? 0 : 1) + "}");
  }
  PassOptions passes;
  passes.evaluate = make_evaluator(*options.provider, *options.fold_pool);
  passes.skip.assign(options.disabled_passes.begin(), options.disabled_passes.end());
  passes.observe = options.observe;
  passes.trail = options.trail;
  // Nodes behind the cut wait for their turn: passes would do little there and be run once for each cut before them.
  // A report follows all nodes through all passes.
  const bool cuts_first = options.trail == nullptr;
  passes.only_known_sizes = cuts_first;
  TENON_TRY(run_passes(graph, PassPhase::kPlan, passes, cuts_first ? PassRange::kFirst : PassRange::kAll));
  TENON_TRY_ASSIGN(CutGraph cut, cut_graph(std::move(graph), output_slots, options.values_vary));
  if (cuts_first) {
    TENON_TRY(run_passes(cut.now, PassPhase::kPlan, passes, PassRange::kBehindFirst));
    const PerValue<ValueId> moved = drop_unused_values(cut.now);
    for (ValueId& id : cut.cut_values) id = moved[id];
  }
  TENON_TRY_ASSIGN(std::shared_ptr<Plan> plan, PlanBuilder(std::move(cut), options, bound).build());
  if (span) {
    span.args()
        .add("steps", plan->steps.size())
        .add("without_step", plan->views.size())
        .add("arena_bytes", plan->arena_bytes)
        .add("is_cut", plan->cut != nullptr);
  }
  return plan;
}

// With room for the values that passes add.
Graph copy_for_passes(const Graph& graph) {
  Graph copy;
  copy.values.reserve(graph.values.size() + graph.values.size() / 2 + 16);
  copy = graph;
  return copy;
}

}  // namespace

Result<std::shared_ptr<Plan>> build_plan(const Graph& graph, std::span<const Shape> shapes,
                                         std::span<const OutputSlot> output_slots, const PlannerOptions& options,
                                         const BoundSpaces& bound) {
  Graph copy = copy_for_passes(graph);
  set_input_shapes(copy, shapes);
  return plan_inferred("plan", std::move(copy), output_slots, options, bound);
}

Result<std::shared_ptr<Plan>> build_rest(const PlanCut& cut, std::span<const Shape> shapes,
                                         std::span<const ConstantRef> constants, const PlannerOptions& options,
                                         const BoundSpaces& bound) {
  Graph graph = copy_for_passes(cut.rest);
  set_input_shapes(graph, shapes);
  std::vector<ValueId> inputs;
  for (size_t i = 0; i < cut.values.size(); ++i) {
    if (cut.values[i].as_constant) {
      graph.value(graph.inputs[i]).constant = constants[i];
    } else {
      inputs.push_back(graph.inputs[i]);
    }
  }
  graph.inputs = std::move(inputs);
  return plan_inferred("plan of the rest", std::move(graph), cut.output_slots, options, bound);
}

}  // namespace tenon
