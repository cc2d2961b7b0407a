// Products of float32 whose first operand its maker wrote as f16 parts (matmul/split_product.h): where that is the
// kernel of a layer normalisation, or the one behind a product like this, splitting it costs no kernel of its own.
//
// A maker does not see a whole row, so that all numbers of a tensor are scaled by one power of two, which a bound of
// their magnitude gives before anything runs: a normalised row has a norm, a product at most that times a column's.
// Such a bound is often 30 times what there is, and loses nothing by that: f16 parts keep 11 bits of numbers down to
// 2^-28 of it, and what is left of all numbers down to 2^-39. The scale of the product is then one number too, and
// cuBLASLt itself adds bias and residual.
//
// Threads: any, once prepared.
#pragma once

#include <memory>

#include "ep/cuda/compute/activation.h"
#include "ep/cuda/compute/blas.h"
#include "ep/cuda/compute/device_op.h"
#include "ep/cuda/ops/matmul/split_product.h"

namespace tenon::cuda {

class SplitProductOp final : public DeviceOp {
 public:
  struct Tensors {
    TensorId x = kNoTensor;         // float16 [rows][terms][depth]
    TensorId w = kNoTensor;         // float16 [columns][terms][depth]
    TensorId bias = kNoTensor;      // float32 [columns]; may be none
    TensorId residual = kNoTensor;  // float32 [rows][columns]; may be none
    TensorId y = kNoTensor;         // float32 [rows][columns]; may be none where there are y_parts
    TensorId y_parts = kNoTensor;   // float16 [rows][y_terms][columns]; may be none
  };
  // `scale`: what the product of the f16 parts is multiplied by. `y_shift`: y's f16 parts are y * 2^y_shift.
  SplitProductOp(std::string label, const SplitProblem& problem, float scale, const Epilogue& epilogue,
                 const Tensors& tensors, int32_t y_terms, int32_t y_shift);

  std::string description(const Program& program) const override;
  ProblemFamily family() const override;
  double work() const override {
    return static_cast<double>(problem_.rows) * static_cast<double>(problem_.columns) *
           static_cast<double>(problem_.depth) * problem_.terms;
  }
  size_t scratch_bytes(const Program& program) const override;
  // Errors: kResourceExhausted where cuBLASLt, which was found, cannot be opened.
  Status prepare(const PrepareContext& context) override;
  Status queue(const QueueContext& context) const override;
  std::string choice() const override { return choice_; }

 private:
  // Whether cuBLASLt may write y as it is to be.
  bool direct() const;
  std::string text_of(int64_t rows) const;
  Result<std::unique_ptr<BlasProduct>> describe(const PrepareContext& context, bool whole) const;
  CUdeviceptr product_address(const Addresses& addresses) const;
  Status queue_product(const cublasLtMatmulAlgo_t& algorithm, CUstream stream, const Addresses& addresses) const;

  const SplitProblem problem_;
  const float scale_;
  const Epilogue epilogue_;
  const Tensors tensors_;
  const int32_t y_terms_, y_shift_;
  std::unique_ptr<BlasProduct> product_;
  cublasLtMatmulAlgo_t algorithm_{};
  CUfunction join_ = nullptr;  // null: the product is all
  std::string choice_;
};

}  // namespace tenon::cuda
