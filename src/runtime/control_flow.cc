#include "runtime/control_flow.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "device/copy.h"
#include "plan/control_flow.h"
#include "runtime/control_flow_parts.h"
#include "runtime/run_state.h"

namespace tenon {

namespace {

// More than a session keeps: a body may meet as many shapes in one run as its loop has iterations.
constexpr size_t kBodyPlans = 64;

// Two outputs that are one value get memory of their own.
void separate_outputs(Graph& graph) {
  for (size_t i = 0; i < graph.outputs.size(); ++i) {
    const auto end = graph.outputs.begin() + static_cast<std::ptrdiff_t>(i);
    if (std::find(graph.outputs.begin(), end, graph.outputs[i]) == end) continue;
    Value copy = graph.value(graph.outputs[i]);
    copy.constant = nullptr;
    Node identity{.op_type = "Identity", .since_version = 1};
    identity.inputs = {graph.outputs[i]};
    identity.outputs = {graph.add_value(std::move(copy))};
    graph.outputs[i] = identity.outputs[0];
    graph.nodes.push_back(std::move(identity));
  }
}

}  // namespace

Status BodyOutputs::hand_over(HandedOver&& output, const RunInfo& info) {
  TENON_TRY_ASSIGN(void* target, place(output.index, output.value.type, output.value.shape));
  return copy_value(target, output.value, output.reason, output.what, info);
}

Status copy_value(void* target, const BodyValue& value, CopyReason reason, const char* what, const RunInfo& info) {
  TENON_TRY_ASSIGN(const size_t bytes, tensor_size_bytes(value.type, value.shape));
  if (bytes == 0 || target == value.data) return {};
  if (info.disallow_copies) return copy_disallowed(what, MemorySpace{}, MemorySpace{}, reason);
  TENON_TRY_ASSIGN(const Tensor to, Tensor::view(value.type, value.shape, target, bytes));
  TENON_TRY_ASSIGN(const Tensor from, Tensor::view(value.type, value.shape, const_cast<void*>(value.data), bytes));
  return copy_tensor(to, from, reason, what, info.ledger);
}

const char* BodyHost::name_of_output(const KernelNode& node, size_t index) const {
  const ValueId id = index < node.node->outputs.size() ? node.node->outputs[index] : kNoValue;
  return id == kNoValue || !planner.keep_text ? "" : planner.keep_text(node.graph->value(id).name);
}

// A run state and an arena, given back at the end of the scope.
struct Body::Lease {
  Lease(const BodyHost& body_host, PlanRuntime& plan_runtime) : host(body_host), runtime(plan_runtime) {}
  Lease(const Lease&) = delete;
  Lease& operator=(const Lease&) = delete;
  ~Lease() {
    if (state == nullptr) return;
    host.arenas->release(std::exchange(state->held[0], {}));
    runtime.idle_states.lock()->push_back(std::move(state));
  }

  Status take() {
    {
      auto idle = runtime.idle_states.lock();
      if (!idle->empty()) {
        state = std::move(idle->back());
        idle->pop_back();
      }
    }
    if (state == nullptr) state = std::make_unique<RunState>(*runtime.plan, *host.planner.pool);
    TENON_TRY_ASSIGN(state->held[0], host.arenas->acquire(runtime.plan->arena_bytes, state->arena(0)));
    return {};
  }

  const BodyHost& host;
  PlanRuntime& runtime;
  std::unique_ptr<RunState> state;
};

Body::Body(const BodyHost& host, Graph graph, const std::vector<bool>& wanted)
    : host_(host), graph_(std::move(graph)), outputs_(wanted.size()), plans_(std::in_place, kBodyPlans) {
  names_.resize(outputs_, "");
  std::vector<ValueId> outputs;
  for (size_t i = 0; i < graph_.outputs.size() && i < wanted.size(); ++i) {
    if (host.planner.keep_text) names_[i] = host.planner.keep_text(graph_.value(graph_.outputs[i]).name);
    if (!wanted[i]) continue;
    outputs.push_back(graph_.outputs[i]);
    slots_.push_back(static_cast<int32_t>(i));
  }
  graph_.outputs = std::move(outputs);
  separate_outputs(graph_);
  graph_.remove_dead_nodes();
}

// Scratch of one run, given back at the end of the scope.
class Body::Borrowed {
 public:
  explicit Borrowed(const Body& body) : body_(body) {
    auto idle = body.idle_.lock();
    if (idle->empty()) {
      scratch_ = std::make_unique<Scratch>();
      return;
    }
    scratch_ = std::move(idle->back());
    idle->pop_back();
  }
  ~Borrowed() { body_.idle_.lock()->push_back(std::move(scratch_)); }
  Borrowed(const Borrowed&) = delete;
  Borrowed& operator=(const Borrowed&) = delete;
  Scratch* operator->() const { return scratch_.get(); }

 private:
  const Body& body_;
  std::unique_ptr<Scratch> scratch_;
};

Status Body::run(std::span<const BodyValue> inputs, BodyOutputs& outputs, const RunInfo& info) const {
  const Borrowed scratch(*this);
  TENON_TRY_ASSIGN(const std::shared_ptr<PlanRuntime> runtime, find_plan(inputs, scratch->key));
  scratch->inputs.clear();
  for (const BodyValue& input : inputs) scratch->inputs.push_back(const_cast<void*>(input.data));
  return run_plan(*runtime, scratch->inputs, scratch->outputs, /*is_rest=*/false, outputs, info);
}

Result<std::shared_ptr<PlanRuntime>> Body::find_plan(std::span<const BodyValue> inputs, SignatureKey& key) const {
  key.clear();
  for (const BodyValue& input : inputs) append_shape(key, input.shape);
  {
    auto plans = plans_.lock();
    if (std::shared_ptr<PlanRuntime> found = plans->find(key)) return found;
  }
  std::vector<Shape> shapes;
  for (const BodyValue& input : inputs) shapes.push_back(input.shape);
  TENON_TRY_ASSIGN(std::shared_ptr<Plan> plan, build_plan(graph_, shapes, slots_, host_.planner));
  auto made = std::make_shared<PlanRuntime>(std::move(plan), kBodyPlans);
  return plans_.lock()->insert(key, std::move(made));
}

Status Body::run_plan(PlanRuntime& runtime, std::span<void* const> inputs, std::vector<void*>& addresses, bool is_rest,
                      BodyOutputs& outputs, const RunInfo& info) const {
  const Plan& plan = *runtime.plan;
  Lease lease(host_, runtime);
  TENON_TRY(lease.take());
  addresses.assign(outputs_, nullptr);
  const auto is_copied = [&](const PlanOutput& output) {
    return std::any_of(plan.copies.begin(), plan.copies.end(),
                       [&](const PlanCopy& copy) { return copy.output == output.slot; });
  };
  for (const PlanOutput& output : plan.outputs) {
    if (is_copied(output)) continue;
    const auto slot = static_cast<size_t>(output.slot);
    TENON_TRY_ASSIGN(addresses[slot], outputs.place(slot, output.spec.type, output.spec.shape));
  }
  RunState& state = *lease.state;
  state.bind(inputs, addresses);
  TENON_TRY(state.run_steps(info, nullptr));
  if (plan.cut) TENON_TRY(run_rest(runtime, state, outputs, info));
  for (const PlanCopy& copy : plan.copies) {
    HandedOver output{.index = static_cast<size_t>(copy.output), .reason = copy.reason};
    output.what = names_[output.index];
    BodyValue& value = output.value;
    value.data = state.address(copy.source);
    if (copy.source.home == Home::kDynamic) {
      const DynamicValue& made = state.dynamic_value(copy.source.index);
      value.type = made.type;
      value.shape = made.shape;
      value.capacity_bytes = made.capacity_bytes;
      // Another output may be the same value.
      const bool last = std::none_of(plan.copies.begin(), plan.copies.end(), [&](const PlanCopy& other) {
        return &other > &copy && other.source.home == Home::kDynamic && other.source.index == copy.source.index;
      });
      if (last) value.memory = state.take_dynamic(copy.source.index);
    } else {
      const auto planned = std::find_if(plan.outputs.begin(), plan.outputs.end(),
                                        [&](const PlanOutput& one) { return one.slot == copy.output; });
      if (planned == plan.outputs.end())
        return internal_error("A body's plan copies to an output that it does not have.");
      value.type = planned->spec.type;
      value.shape = planned->spec.shape;
      if (copy.source.home == Home::kInput && !is_rest) output.input = copy.source.index;
    }
    TENON_TRY(outputs.hand_over(std::move(output), info));
  }
  return {};
}

Result<std::shared_ptr<PlanRuntime>> Body::find_rest(PlanRuntime& runtime, const RunState& state) const {
  const PlanCut& cut = *runtime.plan->cut;
  SignatureKey key;
  std::vector<Shape> shapes;
  std::vector<ConstantRef> constants(cut.values.size());
  for (size_t i = 0; i < cut.values.size(); ++i) {
    const CutValue& value = cut.values[i];
    const bool dynamic = value.location.home == Home::kDynamic;
    shapes.push_back(dynamic ? state.dynamic_value(value.location.index).shape : value.spec.shape);
    append_shape(key, shapes.back());
    if (!value.as_constant) continue;
    // No transfer between tensors: the planner reads numbers, and keeps them as a constant.
    std::byte* data = nullptr;
    TENON_TRY_ASSIGN(constants[i], make_constant(value.spec.type, shapes.back(), &data));
    if (constants[i]->size_bytes > 0) std::memcpy(data, state.address(value.location), constants[i]->size_bytes);
    append_bytes(key, {constants[i]->data, constants[i]->size_bytes});
  }
  {
    auto rests = runtime.rests.lock();
    if (std::shared_ptr<PlanRuntime> found = rests->find(key)) return found;
  }
  TENON_TRY_ASSIGN(std::shared_ptr<Plan> plan, build_rest(cut, shapes, constants, host_.planner));
  auto made = std::make_shared<PlanRuntime>(std::move(plan), kBodyPlans);
  return runtime.rests.lock()->insert(key, std::move(made));
}

Status Body::run_rest(PlanRuntime& runtime, const RunState& state, BodyOutputs& outputs, const RunInfo& info) const {
  TENON_TRY_ASSIGN(const std::shared_ptr<PlanRuntime> rest, find_rest(runtime, state));
  std::vector<void*> inputs;
  for (const CutValue& value : runtime.plan->cut->values) {
    if (!value.as_constant) inputs.push_back(state.address(value.location));
  }
  std::vector<void*> addresses;
  return run_plan(*rest, inputs, addresses, /*is_rest=*/true, outputs, info);
}

ControlFlowKernels::ControlFlowKernels(PlannerOptions planner, ArenaPool& arenas) {
  host_.planner = std::move(planner);
  host_.planner.subgraphs = this;
  host_.planner.devices = {};
  host_.planner.values_vary = true;
  host_.arenas = &arenas;
}

Result<std::unique_ptr<Kernel>> ControlFlowKernels::create(const KernelNode& node, const SubgraphHelper* helper) const {
  if (node.node->op_type == "If") return make_if_kernel(host_, node);
  if (node.node->op_type == "Loop") return make_loop_kernel(host_, node, helper);
  if (node.node->op_type == "Scan") return make_scan_kernel(host_, node, helper);
  return unsupported("Node {} is no If, Loop or Scan.", node.node->label(*node.graph));
}

}  // namespace tenon
