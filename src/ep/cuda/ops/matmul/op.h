// Batches of matrix products whose operands are both computed: through cuBLASLt, or by a plain kernel where that is not
// there or has no algorithm.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "ep/cuda/compute/blas.h"
#include "ep/cuda/compute/device_op.h"

namespace tenon::cuda {

// The algorithm of `product` that was measured to be the fastest for `op`, now or in a session before; without
// measuring the first. `queue` runs one.
struct ChosenAlgorithm {
  cublasLtMatmulAlgo_t algorithm{};
  std::string text;
};
Result<ChosenAlgorithm> choose_algorithm(
    const PrepareContext& context, const DeviceOp& op, BlasProduct& product,
    const std::function<Status(const cublasLtMatmulAlgo_t& algorithm, CUstream stream)>& queue);

class ProductOp final : public DeviceOp {
 public:
  ProductOp(std::string label, const BlasProblem& problem, TensorId x, TensorId w, TensorId y)
      : DeviceOp(std::move(label), {x, w}, {y}), problem_(problem) {}
  std::string description(const Program& program) const override;
  size_t scratch_bytes(const Program& program) const override { return program.workspace_bytes; }
  double work() const override {
    return static_cast<double>(problem_.rows) * static_cast<double>(problem_.columns) *
           static_cast<double>(problem_.depth) * static_cast<double>(problem_.batch);
  }
  Status prepare(const PrepareContext& context) override;
  Status queue(const QueueContext& context) const override;
  std::string choice() const override { return choice_; }

 private:
  Status prepare_library(const PrepareContext& context);
  Status queue_plain(const QueueContext& context) const;
  Status queue_algorithm(const cublasLtMatmulAlgo_t& algorithm, CUstream stream, const Addresses& addresses) const;

  BlasProblem problem_;
  std::unique_ptr<BlasProduct> product_;
  cublasLtMatmulAlgo_t algorithm_{};
  CUfunction plain_ = nullptr;  // null: the library's
  std::string choice_;
};

}  // namespace tenon::cuda
