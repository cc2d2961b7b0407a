#include "plan/evaluate.h"

#include <algorithm>
#include <memory>

#include "base/checked.h"
#include "plan/kernel_node.h"

namespace tenon {

namespace {

struct FoldedOutput {
  ConstantRef constant;
  std::byte* data = nullptr;
};

class FoldContext final : public KernelContext {
 public:
  FoldContext(std::span<const TensorSpec> specs, size_t max_bytes)
      : specs_(specs), results_(specs.size()), left_bytes_(max_bytes) {}

  Result<void*> allocate_output(size_t index, const Shape& shape) override {
    TENON_INVALID_IF(index >= specs_.size() || !specs_[index].present(), "Output {} of {} does not exist.", index,
                     specs_.size());
    TENON_TRY_ASSIGN(const size_t bytes, tensor_size_bytes(specs_[index].type, shape));
    if (bytes > left_bytes_) {
      return resource_exhausted("Folding an output of {} bytes exceeds the {} bytes that are allowed.", bytes,
                                left_bytes_);
    }
    left_bytes_ -= bytes;
    TENON_TRY_ASSIGN(results_[index].constant,
                     make_constant(specs_[index].type, shape, &results_[index].data, Fill::kNothing));
    return static_cast<void*>(results_[index].data);
  }

  FoldedOutput& result(size_t index) { return results_[index]; }

 private:
  std::span<const TensorSpec> specs_;
  std::vector<FoldedOutput> results_;
  size_t left_bytes_;
};

}  // namespace

Result<std::vector<ConstantRef>> evaluate_node(const Graph& graph, const Node& node, const ExecutionProvider& provider,
                                               ThreadPool& pool, size_t max_bytes) {
  const KernelNodeData data(graph, node, KernelNode{});
  TENON_TRY_ASSIGN(const std::unique_ptr<Kernel> kernel, provider.create_kernel(data.view));
  FoldContext context(data.outputs, max_bytes);
  std::vector<const void*> inputs;
  inputs.reserve(data.constants.size());
  std::vector<std::shared_ptr<const std::byte>> held;  // a folded weight is not read again
  for (const ConstantRef& constant : data.constants)
    inputs.push_back(constant ? held.emplace_back(constant->data.read()).get() : nullptr);
  std::vector<void*> outputs(data.outputs.size(), nullptr);
  for (size_t i = 0; i < outputs.size(); ++i) {
    if (!data.outputs[i].present() || data.outputs[i].dynamic) continue;
    TENON_TRY_ASSIGN(outputs[i], context.allocate_output(i, data.outputs[i].shape));
  }
  TENON_TRY_ASSIGN(const std::shared_ptr<const void> scratch, [&]() -> Result<std::shared_ptr<const void>> {
    if (kernel->scratch_bytes() == 0) return std::shared_ptr<const void>();
    std::byte* memory = nullptr;
    const auto size = static_cast<int64_t>(kernel->scratch_bytes());
    TENON_TRY_ASSIGN(ConstantRef holder, make_constant(DataType::kUint8, Shape{size}, &memory, Fill::kNothing));
    context.scratch = memory;
    return std::shared_ptr<const void>(holder);
  }());
  context.inputs = inputs;
  context.outputs = outputs;
  context.pool = &pool;
  TENON_TRY_CONTEXT(kernel->run(context), "while folding node {}", node.label(graph));

  std::vector<ConstantRef> results;
  for (size_t i = 0; i < outputs.size(); ++i) {
    if (data.outputs[i].present() && !context.result(i).constant) {
      return internal_error("The kernel {} of node {} gave no memory to output {}.", kernel->name(), node.label(graph),
                            i);
    }
    results.push_back(context.result(i).constant);
  }
  return results;
}

EvaluateNode make_evaluator(const ExecutionProvider& provider, ThreadPool& pool) {
  return [&provider, &pool](const Graph& graph, const Node& node) {
    size_t max_bytes = size_t{16} << 20;
    for (ValueId id : node.inputs) {
      if (id != kNoValue && graph.value(id).constant) {
        // Twice: weights of 16 bits become float32.
        const size_t size = graph.value(id).constant->size_bytes;
        max_bytes = std::max(max_bytes, size + std::min(size, SIZE_MAX - size));
      }
    }
    return evaluate_node(graph, node, provider, pool, max_bytes);
  };
}

}  // namespace tenon
