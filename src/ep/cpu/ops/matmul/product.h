// The matrix product behind MatMul, Gemm and tenon.MatMul: packing, splitting over threads, epilogue.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "ep/api/kernel.h"
#include "ops/activation.h"

namespace tenon::cpu::nn {

// How a [m,n] output is cut for threads: tasks of `rows` x `columns`.
struct ProductSplit {
  int64_t rows = 0, columns = 0;
  int64_t row_tasks = 0, column_tasks = 0;
};
ProductSplit split_product(int64_t m, int64_t n, int64_t k, int64_t batches, int threads);

// The role of a C operand in the product.
enum class Addend : uint8_t {
  kNone,
  kBias,      // [n], the same for every row
  kResidual,  // [m,n]
  kExpanded,  // broadcast and scaled into [m,n] before every run
};

struct ProductProblem {
  int64_t m = 0, n = 0, k = 0;
  // One entry a batch: which matrix of A and of B.
  std::vector<int64_t> a_index, b_index;
  int64_t a_matrices = 1, b_matrices = 1;
  bool trans_a = false, trans_b = false;
  float alpha = 1;
  Epilogue epilogue;
  int bias_input = -1;      // [n]
  int residual_input = -1;  // [batches,m,n]
  // A bias or residual prepared beforehand instead.
  std::shared_ptr<const std::byte> prepared_bias, prepared_residual;
  // Gemm: an input that broadcasts to [m,n] and is scaled, for each run anew.
  int expanded_input = -1;
  int64_t expanded_row_stride = 0, expanded_column_stride = 0;
  float expanded_scale = 1;
};

// A is input 0, B input 1; both dense f32. Packs B when it is constant.
Result<std::unique_ptr<Kernel>> make_product(const KernelNode& node, ProductProblem problem);

}  // namespace tenon::cpu::nn
