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

BodyHost::BodyHost(PlannerOptions planner, const SubgraphKernels& subgraphs, ArenaPools& arenas, KeptTexts& texts)
    : planner_(std::move(planner)) {
  planner_.subgraphs = &subgraphs;
  planner_.devices = {};
  planner_.values_vary = true;
  resources_ = {.pool = planner_.pool, .arenas = &arenas, .spaces = &spaces_, .texts = &texts, .rests = this};
}

const char* BodyHost::name_of_output(const KernelNode& node, size_t index) const {
  const ValueId id = index < node.node->outputs.size() ? node.node->outputs[index] : kNoValue;
  return id == kNoValue ? "" : keep(node.graph->value(id).name);
}

Result<std::shared_ptr<Plan>> BodyHost::plan_rest(const PlanCut& cut, std::span<const Shape> shapes,
                                                  std::span<const ConstantRef> constants, const BoundSpaces& bound,
                                                  bool /*disallow_copies*/) const {
  return build_rest(cut, shapes, constants, planner_, bound);
}

Body::Body(const BodyHost& host, Graph graph, const std::vector<bool>& wanted)
    : host_(host), graph_(std::move(graph)), outputs_(wanted.size()), plans_(kBodyPlans) {
  names_.resize(outputs_, "");
  std::vector<ValueId> outputs;
  for (size_t i = 0; i < graph_.outputs.size() && i < wanted.size(); ++i) {
    names_[i] = host.keep(graph_.value(graph_.outputs[i]).name);
    if (!wanted[i]) continue;
    outputs.push_back(graph_.outputs[i]);
    slots_.emplace_back(i);
  }
  graph_.outputs = std::move(outputs);
  separate_outputs(graph_);
  graph_.remove_dead_nodes();
}

// Lets the node place what a plan writes, and hands it what a plan makes elsewhere.
class Body::Outputs final : public PlanOutputs {
 public:
  Outputs(const Body& body, BodyOutputs& node, std::vector<void*>& addresses, const RunInfo& info)
      : body_(body), node_(node), addresses_(addresses), info_(info) {}

  Status prepare(const Plan& plan, std::span<void* const> /*inputs*/) override {
    addresses_.assign(body_.outputs_, nullptr);
    for (const PlanOutput& output : plan.outputs) {
      const bool is_copied = std::any_of(plan.copies.begin(), plan.copies.end(),
                                         [&](const PlanCopy& copy) { return copy.output == output.slot; });
      if (is_copied) continue;
      const size_t slot = output.slot.index();
      TENON_TRY_ASSIGN(addresses_[slot], node_.place(slot, output.spec.type, output.spec.shape));
    }
    return {};
  }

  std::span<void* const> addresses() const override { return addresses_; }

  Status finish(const Plan& plan, RunState& state, bool is_rest) override {
    for (const PlanCopy& copy : plan.copies) {
      HandedOver output{.index = copy.output.index(), .reason = copy.reason};
      output.what = body_.names_[output.index];
      TENON_TRY(take_value(plan, copy, state, output.value));
      if (copy.source.kind == StorageKind::kInput && !is_rest) output.input = copy.source.index;
      TENON_TRY(node_.hand_over(std::move(output), info_));
    }
    return {};
  }

 private:
  static Status take_value(const Plan& plan, const PlanCopy& copy, RunState& state, BodyValue& value) {
    value.data = state.address(copy.source);
    if (copy.source.kind == StorageKind::kDynamic) {
      const DynamicValue& made = state.dynamic_value(DynamicId(copy.source.index));
      value.type = made.type;
      value.shape = made.shape;
      value.capacity_bytes = made.capacity_bytes;
      // Another output may be the same value.
      const bool last = std::none_of(plan.copies.begin(), plan.copies.end(), [&](const PlanCopy& other) {
        return &other > &copy && other.source.kind == StorageKind::kDynamic && other.source.index == copy.source.index;
      });
      if (last) value.memory = state.take_dynamic(DynamicId(copy.source.index));
      return {};
    }
    const auto planned = std::find_if(plan.outputs.begin(), plan.outputs.end(),
                                      [&](const PlanOutput& one) { return one.slot == copy.output; });
    if (planned == plan.outputs.end())
      return internal_error("A body's plan copies to an output that it does not have.");
    value.type = planned->spec.type;
    value.shape = planned->spec.shape;
    return {};
  }

  const Body& body_;
  BodyOutputs& node_;
  std::vector<void*>& addresses_;
  const RunInfo& info_;
};

Status Body::run(std::span<const BodyValue> inputs, BodyOutputs& outputs, const RunInfo& info) const {
  const auto scratch = idle_.take();
  scratch->key.clear();
  scratch->inputs.clear();
  for (const BodyValue& input : inputs) {
    append_shape(scratch->key, input.shape);
    scratch->inputs.push_back(const_cast<void*>(input.data));
  }
  const auto make = [&] {
    std::vector<Shape> shapes;
    for (const BodyValue& input : inputs) shapes.push_back(input.shape);
    return build_plan(graph_, shapes, slots_, host_.planner());
  };
  TENON_TRY(scratch->plan.find(scratch->key,
                               [&](CachedPlan& found) { return plans_.find_or_make(scratch->key, make, found); }));
  PlanRuntime& runtime = *scratch->plan.runtime();
  Outputs placed(*this, outputs, scratch->outputs, info);
  TENON_TRY(placed.prepare(*runtime.plan, scratch->inputs));
  return PlanExecutor(host_.resources(), info).run(runtime, scratch->inputs, placed);
}

Result<std::unique_ptr<Kernel>> ControlFlowKernels::create(const KernelNode& node, const SubgraphHelper* helper) const {
  if (node.node->op_type == "If") return make_if_kernel(host_, node);
  if (node.node->op_type == "Loop") return make_loop_kernel(host_, node, helper);
  if (node.node->op_type == "Scan") return make_scan_kernel(host_, node, helper);
  return unsupported("Node {} is no If, Loop or Scan.", node.node->label(*node.graph));
}

}  // namespace tenon
