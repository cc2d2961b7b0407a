// Plans made by hand for tests of the parts that run them. Only tests include this.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <utility>

#include "plan/plan.h"

namespace tenon {

// A kernel that does what a test says.
class FunctionKernel final : public Kernel {
 public:
  using Function = std::function<Status(KernelContext&)>;
  explicit FunctionKernel(Function function, bool in_place = false)
      : function_(std::move(function)), in_place_(in_place) {}
  Status run(KernelContext& context) const override { return function_(context); }
  bool may_run_in_place(size_t /*input*/, size_t /*output*/) const override { return in_place_; }
  std::string_view name() const override { return "function"; }

 private:
  Function function_;
  bool in_place_;
};

inline TensorSpec floats(int64_t count) { return {.type = DataType::kFloat, .shape = Shape{count}}; }

// A plan with the input "x" and the output "y" of `count` floats, and one step from the one to the other that has the
// arena as its scratch memory.
inline std::shared_ptr<Plan> plan_of(FunctionKernel::Function function, int64_t count = 4, bool in_place = false) {
  auto plan = std::make_shared<Plan>();
  Node node;
  node.name = "the_step";
  plan->graph.nodes.push_back(node);
  plan->spaces.push_back({});
  plan->arenas = {64};
  plan->arena_bytes = 64;
  PlanInput input;
  input.name = "x";
  input.spec = floats(count);
  plan->inputs.push_back(input);
  PlanOutput output;
  output.name = "y";
  output.slot = OutputSlot(0);
  output.spec = floats(count);
  output.first_write = StepId(0);
  output.shared.resize(1);
  plan->outputs.push_back(output);
  PlanStep step;
  step.node = NodeId(0);
  step.kernel = std::make_unique<FunctionKernel>(std::move(function), in_place);
  step.inputs = {{StorageKind::kInput, 0, 0}};
  step.outputs = {{StorageKind::kOutput, 0, 0}};
  step.scratch = {StorageKind::kArena, 0, 0};
  plan->steps.push_back(std::move(step));
  return plan;
}

}  // namespace tenon
