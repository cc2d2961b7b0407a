#include "ep/cpu/kernels/nn_matmul.h"

#include <algorithm>
#include <cstring>

#include "ep/cpu/kernels/nn_common.h"
#include "ep/cpu/kernels/nn_product.h"
#include "ep/cpu/parse_epilogue.h"

namespace tenon::cpu::nn {

namespace {

// The batch dimensions of `shape` (all but the last two), from the last: 1 where it has none.
int64_t batch_dim(const Shape& shape, int from_end) {
  const int axis = shape.rank() - 3 - from_end;
  return axis >= 0 ? shape[axis] : 1;
}

// Fills the batches of a product of A[..., m, k] and B[..., k, n].
Status broadcast_batches(const Shape& a, const Shape& b, ProductProblem& problem) {
  const int rank = std::max({a.rank(), b.rank(), 2}) - 2;
  Shape dims;  // of the output's batches, from the last
  for (int i = 0; i < rank; ++i) {
    const int64_t da = batch_dim(a, i), db = batch_dim(b, i);
    TENON_INVALID_IF(da != db && da != 1 && db != 1, "The batch dimensions of shapes {} and {} do not broadcast.",
                     a.to_string(), b.to_string());
    dims.push_back(da == 1 ? db : da);
    problem.a_matrices *= da;
    problem.b_matrices *= db;
  }
  const int64_t batches = dims.element_count();
  if (problem.b_matrices == 1 && problem.a_matrices == batches && !problem.trans_a) {
    problem.m *= batches;
    problem.a_matrices = 1;
    problem.a_index = problem.b_index = {0};
    return {};
  }
  for (int64_t i = 0; i < batches; ++i) {
    int64_t rest = i, ia = 0, ib = 0, sa = 1, sb = 1;
    for (int d = 0; d < rank; ++d) {
      const int64_t at = rest % dims[d];
      rest /= dims[d];
      if (batch_dim(a, d) != 1) ia += at * sa;
      if (batch_dim(b, d) != 1) ib += at * sb;
      sa *= batch_dim(a, d);
      sb *= batch_dim(b, d);
    }
    problem.a_index.push_back(ia);
    problem.b_index.push_back(ib);
  }
  return {};
}

Status check_output(const KernelNode& node, const ProductProblem& problem) {
  const int64_t count = static_cast<int64_t>(problem.a_index.size()) * problem.m * problem.n;
  TENON_INVALID_IF(output_spec(node, 0).shape.element_count() != count,
                   "The output of shape {} does not have the product's {} elements.",
                   output_spec(node, 0).shape.to_string(), count);
  return {};
}

// Dimensions of A and B; vectors become a row and a column.
Status fill_dimensions(const KernelNode& node, ProductProblem& problem) {
  Shape a = input_spec(node, 0).shape, b = input_spec(node, 1).shape;
  TENON_INVALID_IF(a.rank() == 0 || b.rank() == 0, "A matrix product takes no scalars.");
  if (a.rank() == 1) a = Shape{1, a[0]};
  if (b.rank() == 1) b = Shape{b[0], 1};
  problem.m = a[a.rank() - 2];
  problem.k = a[a.rank() - 1];
  problem.n = b[b.rank() - (problem.trans_b ? 2 : 1)];
  const int64_t depth = b[b.rank() - (problem.trans_b ? 1 : 2)];
  TENON_INVALID_IF(problem.k != depth, "Shapes {} and {} do not match for a matrix product: {} columns, {} rows.",
                   a.to_string(), b.to_string(), problem.k, depth);
  return broadcast_batches(a, b, problem);
}

// Gemm's C on the [m,n] output: as a bias, a residual, or expanded for each run.
Status fill_addend(const KernelNode& node, float beta, ProductProblem& problem) {
  const TensorSpec& c = input_spec(node, 2);
  if (!c.present() || beta == 0) return {};
  const int rank = c.shape.rank();
  const int64_t rows = rank >= 2 ? c.shape[rank - 2] : 1;
  const int64_t columns = rank >= 1 ? c.shape[rank - 1] : 1;
  TENON_INVALID_IF(rank > 2 || (rows != 1 && rows != problem.m) || (columns != 1 && columns != problem.n),
                   "C of shape {} does not broadcast to [{},{}].", c.shape.to_string(), problem.m, problem.n);
  const bool whole_rows = columns == problem.n;
  if (beta == 1 && whole_rows && rows == 1) {
    problem.bias_input = 2;
    return {};
  }
  if (beta == 1 && whole_rows && rows == problem.m) {
    problem.residual_input = 2;
    return {};
  }
  const int64_t column_stride = columns == 1 ? 0 : 1;
  if (const Constant* constant = constant_input(node, 2); constant != nullptr && rows == 1) {
    const auto* const from = reinterpret_cast<const float*>(constant->data);
    const auto fill = [&](std::byte* out) {
      for (int64_t j = 0; j < problem.n; ++j) reinterpret_cast<float*>(out)[j] = beta * from[j * column_stride];
    };
    TENON_TRY_ASSIGN(problem.prepared_bias,
                     packed_constant(node, node.constants[2], tenon::format("gemm_c {} x{}", problem.n, beta),
                                     static_cast<size_t>(problem.n) * sizeof(float), fill));
    return {};
  }
  problem.expanded_input = 2;
  problem.expanded_row_stride = rows == 1 ? 0 : columns;
  problem.expanded_column_stride = column_stride;
  problem.expanded_scale = beta;
  return {};
}

}  // namespace

Status match_matmul(const KernelNode& node) { return match_plain(node, DataType::kFloat); }

Result<std::unique_ptr<Kernel>> create_matmul(const KernelNode& node) {
  ProductProblem problem;
  TENON_TRY(fill_dimensions(node, problem));
  TENON_TRY(check_output(node, problem));
  return make_product(node, std::move(problem));
}

Result<std::unique_ptr<Kernel>> create_fused_matmul(const KernelNode& node) {
  ProductProblem problem;
  problem.trans_b = node.node->int_or("trans_b", 0) != 0;
  problem.alpha = node.node->float_or("alpha", 1);
  TENON_TRY_ASSIGN(problem.epilogue, parse_epilogue(*node.node));
  TENON_TRY(fill_dimensions(node, problem));
  TENON_TRY(check_output(node, problem));
  if (const TensorSpec& bias = input_spec(node, 2); bias.present()) {
    TENON_INVALID_IF(bias.shape.element_count() != problem.n, "The bias of shape {} does not have {} elements.",
                     bias.shape.to_string(), problem.n);
    problem.bias_input = 2;
  }
  if (const TensorSpec& residual = input_spec(node, 3); residual.present()) {
    TENON_INVALID_IF(residual.shape.element_count() != output_spec(node, 0).shape.element_count(),
                     "The residual of shape {} does not fit the output of shape {}.", residual.shape.to_string(),
                     output_spec(node, 0).shape.to_string());
    problem.residual_input = 3;
  }
  return make_product(node, std::move(problem));
}

Result<std::unique_ptr<Kernel>> create_gemm(const KernelNode& node) {
  const Shape &a = input_spec(node, 0).shape, &b = input_spec(node, 1).shape;
  TENON_INVALID_IF(a.rank() != 2 || b.rank() != 2, "Gemm takes two matrices, not shapes {} and {}.", a.to_string(),
                   b.to_string());
  ProductProblem problem;
  problem.trans_a = node.node->int_or("transA", 0) != 0;
  problem.trans_b = node.node->int_or("transB", 0) != 0;
  problem.alpha = node.node->float_or("alpha", 1);
  problem.m = a[problem.trans_a ? 1 : 0];
  problem.k = a[problem.trans_a ? 0 : 1];
  problem.n = b[problem.trans_b ? 0 : 1];
  const int64_t depth = b[problem.trans_b ? 1 : 0];
  TENON_INVALID_IF(problem.k != depth, "Shapes {} and {} do not match for Gemm: {} columns, {} rows.", a.to_string(),
                   b.to_string(), problem.k, depth);
  problem.a_index = problem.b_index = {0};
  TENON_TRY(fill_addend(node, node.node->float_or("beta", 1), problem));
  TENON_TRY(check_output(node, problem));
  return make_product(node, std::move(problem));
}

}  // namespace tenon::cpu::nn
