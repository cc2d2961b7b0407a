#include "ep/cpu/ops/reduce/rows.h"

#include <algorithm>
#include <optional>

#include "ep/cpu/ops/vector_kernel.h"
#include "ep/cpu/simd/norm.h"
#include "ops/reduce.h"

namespace tenon::cpu::nn {

namespace {

constexpr int64_t kGrain = 16384;  // elements read by a chunk

struct ReductionRow {
  std::string_view op_type;
  Reduction reduction;
};

constexpr ReductionRow kReductions[] = {
    {"ReduceSum", Reduction::kSum}, {"ReduceMean", Reduction::kMean},           {"ReduceMax", Reduction::kMax},
    {"ReduceMin", Reduction::kMin}, {"ReduceSumSquare", Reduction::kSumSquare}, {"ReduceL2", Reduction::kL2},
    {"ReduceL1", Reduction::kL1},   {"GlobalAveragePool", Reduction::kMean},    {"GlobalMaxPool", Reduction::kMax},
};

// The reduction as [outer, n, inner]: n is reduced.
struct Problem {
  int64_t outer = 1, n = 1, inner = 1;
};

class ReduceKernel final : public Kernel {
 public:
  ReduceKernel(const Problem& problem, Reduction reduction) : p_(problem), reduction_(reduction) {}

  Status run(KernelContext& context) const override {
    const float* const x = context.input<float>(0);
    float* const y = context.output<float>(0);
    if (p_.inner == 1) {
      context.pool->parallel_for(p_.outer, std::max<int64_t>(1, kGrain / p_.n), [&](int64_t begin, int64_t end) {
        norm_table().reduce_rows(x + begin * p_.n, y + begin, end - begin, p_.n, reduction_);
      });
      return {};
    }
    const int64_t width = std::max<int64_t>(64, kGrain / p_.n / 64 * 64);
    const int64_t parts = (p_.inner + width - 1) / width;
    context.pool->parallel_for(p_.outer * parts, 1, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        const int64_t outer = i / parts, first = i % parts * width;
        norm_table().reduce_columns(x + outer * p_.n * p_.inner, y + outer * p_.inner, p_.n, p_.inner, first,
                                    std::min(p_.inner, first + width), reduction_);
      }
    });
    return {};
  }
  std::string_view name() const override { return p_.inner == 1 ? "reduce rows f32" : "reduce columns f32"; }

 private:
  const Problem p_;
  const Reduction reduction_;
};

Result<AxisSet> axes_of(const KernelNode& node) {
  const int rank = input_spec(node, 0).shape.rank();
  if (node.node->op_type.starts_with("Global")) {
    AxisSet spatial;
    for (int i = 2; i < rank; ++i) spatial.set(i);
    return spatial;
  }
  const ConstantRef given = node.constants.size() > 1 ? node.constants[1] : nullptr;
  std::optional<ReduceDesc> desc = read_reduce(*node.node, input_spec(node, 1).present(), given);
  TENON_UNSUPPORTED_IF(!desc, "The axes are not constant.");
  return reduced_axes(desc->axes, desc->noop_with_empty_axes, rank);
}

Result<Problem> reduction_problem(const KernelNode& node) {
  TENON_TRY_ASSIGN(const AxisSet reduced, axes_of(node));
  const Shape& shape = input_spec(node, 0).shape;
  Problem problem;
  int stage = 0;  // 0: before the reduced axes, 1: in them, 2: after them
  for (int i = 0; i < shape.rank(); ++i) {
    if (shape[i] == 1) continue;
    const bool is_reduced = reduced.test(i);
    if (stage == 0 && is_reduced) stage = 1;
    if (stage == 1 && !is_reduced) stage = 2;
    TENON_UNSUPPORTED_IF(stage == 2 && is_reduced, "The reduced axes of shape {} are not neighbours.",
                         shape.to_string());
    (stage == 0 ? problem.outer : stage == 1 ? problem.n : problem.inner) *= shape[i];
  }
  TENON_UNSUPPORTED_IF(problem.n == 0 || shape.element_count() == 0, "The input of shape {} is empty.",
                       shape.to_string());
  return problem;
}

}  // namespace

Status match_reduce(const KernelNode& node) {
  const TensorSpec &x = input_spec(node, 0), &y = output_spec(node, 0);
  TENON_UNSUPPORTED_IF(x.type != DataType::kFloat || x.layout != Layout::kPlain || y.layout != Layout::kPlain ||
                           y.dynamic || !y.present(),
                       "The operand is not plain float32 of known size.");
  return reduction_problem(node).status();
}

Result<std::unique_ptr<Kernel>> create_reduce(const KernelNode& node) {
  TENON_TRY_ASSIGN(const Problem problem, reduction_problem(node));
  TENON_INVALID_IF(output_spec(node, 0).shape.element_count() != problem.outer * problem.inner,
                   "The output of shape {} does not have the {} elements that remain.",
                   output_spec(node, 0).shape.to_string(), problem.outer * problem.inner);
  for (const ReductionRow& row : kReductions)
    if (row.op_type == node.node->op_type)
      return std::unique_ptr<Kernel>(std::make_unique<ReduceKernel>(problem, row.reduction));
  return unsupported("The operator {} has no loop.", node.node->op_type);
}

}  // namespace tenon::cpu::nn
