#include "ep/cpu/ops/matmul/rows.h"

#include "ep/api/input_shapes.h"
#include "ep/cpu/ops/matmul/product.h"
#include "ep/cpu/ops/vector_kernel.h"
#include "ops/matmul.h"
#include "ops/unary.h"

namespace tenon::cpu::nn {

namespace {

// Which matrices are multiplied; a batch of A that meets one B is one tall matrix.
void fill_batches(const MatMulDesc& desc, ProductProblem& problem) {
  problem.a_matrices = desc.a_batch.element_count();
  problem.b_matrices = desc.b_batch.element_count();
  const int64_t batches = desc.batch.element_count();
  if (problem.b_matrices == 1 && problem.a_matrices == batches && !problem.trans_a) {
    problem.m *= batches;
    problem.a_matrices = 1;
    problem.a_index = problem.b_index = {0};
    return;
  }
  for (int64_t i = 0; i < batches; ++i) {
    problem.a_index.push_back(operand_matrix(desc.batch, desc.a_batch, i));
    problem.b_index.push_back(operand_matrix(desc.batch, desc.b_batch, i));
  }
}

// The addend on the [m,n] output: as a bias, a residual, or expanded for each run.
Status fill_addend(const KernelNode& node, const MatMulDesc& desc, ProductProblem& problem) {
  if (desc.addend == kNoInput) return {};
  const auto input = static_cast<int>(desc.addend);
  const bool one_row = desc.addend_row == 0, whole_rows = desc.addend_column == 1 || desc.n == 1;
  if (desc.beta == 1 && whole_rows) {
    (one_row ? problem.bias_input : problem.residual_input) = input;
    return {};
  }
  if (const Constant* constant = constant_input(node, desc.addend); constant != nullptr && one_row) {
    const auto fill = [&](const std::byte* addend, std::byte* out) {
      const auto* const from = reinterpret_cast<const float*>(addend);
      for (int64_t j = 0; j < desc.n; ++j) reinterpret_cast<float*>(out)[j] = desc.beta * from[j * desc.addend_column];
    };
    TENON_TRY_ASSIGN(problem.prepared_bias,
                     packed_constant(node, node.constants[desc.addend],
                                     tenon::format("gemm_c {} x{}", desc.n, desc.beta), desc.n * sizeof(float), fill));
    return {};
  }
  problem.expanded_input = input;
  problem.expanded_row_stride = desc.addend_row;
  problem.expanded_column_stride = desc.addend_column;
  problem.expanded_scale = desc.beta;
  return {};
}

}  // namespace

Status match_matmul(const KernelNode& node) { return match_plain(node, DataType::kFloat); }

Result<std::unique_ptr<Kernel>> create_matmul(const KernelNode& node) {
  TENON_TRY_ASSIGN(const MatMulDesc desc, read_matmul(*node.node, input_shapes(node)));
  TENON_INVALID_IF(output_spec(node, 0).shape != desc.y, "The output has shape {} instead of {}.",
                   output_spec(node, 0).shape.to_string(), desc.y.to_string());
  ProductProblem problem;
  problem.m = desc.m;
  problem.n = desc.n;
  problem.k = desc.k;
  problem.trans_a = desc.trans_a;
  problem.trans_b = desc.trans_b;
  problem.alpha = desc.alpha;
  if (node.node->domain == "tenon") {
    TENON_TRY_ASSIGN(problem.epilogue, read_epilogue(*node.node));
  }
  fill_batches(desc, problem);
  TENON_TRY(fill_addend(node, desc, problem));
  if (desc.residual != kNoInput) problem.residual_input = static_cast<int>(desc.residual);
  return make_product(node, std::move(problem));
}

}  // namespace tenon::cpu::nn
