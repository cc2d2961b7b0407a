// Einsum: sums of products over named dimensions, of any number of operands.
#include <algorithm>

#include "ep/api/input_shapes.h"
#include "ep/cpu/ops/reference_kernel.h"
#include "ops/einsum.h"

namespace tenon::cpu::ref {

namespace {

// Letters become loops: those of the output first, then those that are summed.
struct EinsumPlan {
  std::vector<int64_t> outer, inner;                           // lengths
  std::vector<std::vector<int64_t>> outer_steps, inner_steps;  // [loop][operand], in elements
  size_t operands = 0;
};

int64_t count_of(const std::vector<int64_t>& sizes) {
  int64_t count = 1;
  for (int64_t size : sizes) count *= size;
  return count;
}

// Moves the operands' offsets to the next element of the loops, the last loop innermost.
void advance(const std::vector<int64_t>& sizes, const std::vector<std::vector<int64_t>>& steps,
             std::vector<int64_t>& index, std::vector<int64_t>& at) {
  for (size_t d = sizes.size(); d-- > 0;) {
    const bool more = ++index[d] < sizes[d];
    for (size_t k = 0; k < at.size(); ++k) at[k] += more ? steps[d][k] : -steps[d][k] * (sizes[d] - 1);
    if (more) return;
    index[d] = 0;
  }
}

using EinsumLoop = void (*)(const EinsumPlan& plan, std::span<const void* const> inputs, void* y);

template <typename T>
void einsum_loop(const EinsumPlan& plan, std::span<const void* const> inputs, void* y) {
  using A = std::conditional_t<is_float<T>, double, uint64_t>;
  const int64_t outer = count_of(plan.outer), inner = count_of(plan.inner);
  std::vector<int64_t> index(plan.outer.size()), inner_index(plan.inner.size()), at(plan.operands);
  for (int64_t i = 0; i < outer; ++i, advance(plan.outer, plan.outer_steps, index, at)) {
    A sum = 0;
    // The inner loops end where they began.
    for (int64_t j = 0; j < inner; ++j, advance(plan.inner, plan.inner_steps, inner_index, at)) {
      A product = 1;
      for (size_t k = 0; k < plan.operands; ++k) product *= static_cast<A>(static_cast<const T*>(inputs[k])[at[k]]);
      sum += product;
    }
    static_cast<T*>(y)[i] = T(sum);
  }
}

// A letter twice in one operand runs down its diagonal; a dimension of 1 repeats.
std::vector<int64_t> steps_of(const EinsumDesc& desc, const InputShapes& shapes, char letter) {
  std::vector<int64_t> steps;
  for (size_t k = 0; k < desc.inputs.size(); ++k) {
    const Strides dense = dense_strides(*shapes.find(k));
    int64_t step = 0;
    for (size_t d = 0; d < desc.inputs[k].size(); ++d) {
      const int axis = static_cast<int>(d);
      if (desc.inputs[k][d] == letter && (*shapes.find(k))[axis] != 1) step += dense[axis];
    }
    steps.push_back(step);
  }
  return steps;
}

Result<RefImpl> make_einsum(RefNode& node) {
  const InputShapes shapes = input_shapes(node);
  TENON_TRY_ASSIGN(const EinsumDesc desc, read_einsum(*node.node, shapes));
  for (const TensorSpec& spec : node.inputs) {
    TENON_INVALID_IF(spec.type != node.inputs[0].type, "Einsum mixes {} and {}.", data_type_name(node.inputs[0].type),
                     data_type_name(spec.type));
  }
  EinsumPlan plan{.operands = node.inputs.size()};
  Shape out;
  for (char letter : desc.output) {
    out.push_back(desc.sizes.at(letter));
    plan.outer.push_back(desc.sizes.at(letter));
    plan.outer_steps.push_back(steps_of(desc, shapes, letter));
  }
  for (const auto& [letter, size] : desc.sizes) {
    if (desc.output.find(letter) != std::string::npos) continue;
    plan.inner.push_back(size);
    plan.inner_steps.push_back(steps_of(desc, shapes, letter));
  }
  TENON_TRY(require_output(node, 0, out));
  const auto loop =
      select(NumericTypes(), node.inputs[0].type, []<typename T>() -> EinsumLoop { return &einsum_loop<T>; });
  TENON_UNSUPPORTED_IF(loop == nullptr, "Einsum is not computed on {}.", data_type_name(node.inputs[0].type));
  RefImpl impl;
  impl.run = [plan, loop](KernelContext& context) -> Status {
    loop(plan, context.inputs, context.outputs[0]);
    return {};
  };
  return impl;
}

constexpr KernelEntry kRows[] = {
    ref_row<kNumericSet, &make_einsum>("Einsum", 12),
};

}  // namespace

std::span<const KernelEntry> ref_einsum_rows() { return kRows; }

}  // namespace tenon::cpu::ref
