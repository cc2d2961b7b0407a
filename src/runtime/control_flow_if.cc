// If: the branch that the condition chooses writes into the node's own outputs.
#include <memory>
#include <utility>
#include <vector>

#include "runtime/control_flow_parts.h"
#include "runtime/idle_pool.h"

namespace tenon {

namespace {

class IfOutputs final : public BodyOutputs {
 public:
  IfOutputs(KernelContext& context, std::span<const TensorSpec> specs) : context_(context), specs_(specs) {}
  Result<void*> place(size_t index, DataType type, const Shape& shape) override {
    return open_output(context_, specs_, index, type, shape);
  }

 private:
  KernelContext& context_;
  std::span<const TensorSpec> specs_;
};

class IfKernel final : public Kernel {
 public:
  IfKernel(const KernelNode& node, BodyOf then_branch, BodyOf else_branch)
      : inputs_(node.inputs.begin(), node.inputs.end()),
        outputs_(node.outputs.begin(), node.outputs.end()),
        then_(std::move(then_branch)),
        else_(std::move(else_branch)) {}

  Status run(KernelContext& context) const override {
    const bool taken = *context.input<uint8_t>(0) != 0;
    const BodyOf& branch = taken ? then_ : else_;
    const auto values = idle_.take();
    append_captured(context, inputs_, branch, *values);
    IfOutputs outputs(context, outputs_);
    Status status = branch.body->run(*values, outputs, info_of(context));
    values->clear();  // borrowed values are gone after the run
    if (!status.ok()) return std::move(status).with_context(taken ? "in the then branch" : "in the else branch");
    return status;
  }
  std::string_view name() const override { return "if"; }

 private:
  const std::vector<TensorSpec> inputs_, outputs_;
  const BodyOf then_, else_;
  IdlePool<std::vector<BodyValue>> idle_;
};

}  // namespace

Result<std::unique_ptr<Kernel>> make_if_kernel(const BodyHost& host, const KernelNode& node) {
  TENON_INVALID_IF(
      node.inputs.empty() || node.inputs[0].type != DataType::kBool || node.inputs[0].shape.element_count() != 1,
      "The condition of {} is not one bool.", node.node->label(*node.graph));
  std::vector<bool> wanted;
  for (const TensorSpec& output : node.outputs) wanted.push_back(output.present());
  TENON_TRY_ASSIGN(BodyOf then_branch, body_of(host, node, "then_branch", wanted));
  TENON_TRY_ASSIGN(BodyOf else_branch, body_of(host, node, "else_branch", wanted));
  return std::unique_ptr<Kernel>(std::make_unique<IfKernel>(node, std::move(then_branch), std::move(else_branch)));
}

}  // namespace tenon
