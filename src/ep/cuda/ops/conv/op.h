// Convolutions and products with a matrix of weights: y = act(x * w + bias + residual).
//
// The implementation is chosen by measuring: our tensor core kernel with its tiles and splits, cuBLASLt where the
// problem is a plain product (of the type's numbers, or of f16 parts of float32), cuDNN, and the direct kernels.
#pragma once

#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "ep/cuda/compute/activation.h"
#include "ep/cuda/compute/blas.h"
#include "ep/cuda/compute/cudnn_conv.h"
#include "ep/cuda/compute/device_op.h"
#include "ep/cuda/compute/kernel_params.h"
#include "ep/cuda/ops/matmul/split_product.h"

namespace tenon::cuda {

// Products of so few rows take as long as reading their weights: they are exact with TF32 too.
inline constexpr int32_t kRowsThatCostNothing = 32;
constexpr bool rounds_to_tf32(DataType type, bool tf32, int64_t rows) {
  return type == DataType::kFloat && tf32 && rows > kRowsThatCostNothing;
}

// Whether a convolution multiplies single pixels with a matrix.
bool is_product(const ConvParams& params);
// How a float32 convolution of `params` is split; no terms where it is not. Without TF32 splitting is one choice
// among others. With it, products that are quickly split beside their own time are, and errors of all layers of a model
// stay below 1e-3: the others round two operands to 11 bits, these one or, where they are deep, none.
SplitProblem choose_split(DataType type, bool tf32, size_t workspace_bytes, const ConvParams& params);

struct ConvTensors {
  TensorId x = kNoTensor;
  TensorId w = kNoTensor;           // [out][kernel row][kernel column][in]
  TensorId bias = kNoTensor;        // float32
  TensorId bias_typed = kNoTensor;  // of the type of x, for cuBLASLt
  TensorId residual = kNoTensor;
  TensorId y = kNoTensor;
  // The weights as f16 parts for SplitProduct; with TF32 that is then the only choice where cuBLASLt is there.
  TensorId parts = kNoTensor;
  int32_t terms = 0;
};

class ConvOp final : public DeviceOp {
 public:
  // `params` without addresses. The inner dimension (params.in_c) must be a multiple of 16 bytes for the tensor core
  // kernel; otherwise the direct kernel serves.
  ConvOp(std::string label, DataType type, const ConvParams& params, const Epilogue& epilogue,
         const ConvTensors& tensors);

  std::string description(const Program& program) const override;
  ProblemFamily family() const override;
  double work() const override {
    return static_cast<double>(params_.pixels) * params_.channels * static_cast<double>(params_.depth);
  }
  size_t scratch_bytes(const Program& program) const override;
  Status prepare(const PrepareContext& context) override;
  Status queue(const QueueContext& context) const override;
  std::string choice() const override { return choice_.text; }
  DataType type() const { return type_; }
  // The kernel's parameters with the addresses of one run.
  ConvParams bound_params(const Addresses& addresses) const;
  // The choices that could serve after prepare(), and using one of them. For tests; the plain kernel always can.
  Result<std::vector<std::string>> choice_texts(const PrepareContext& context);
  Status use(const PrepareContext& context, const std::string& text);

 private:
  struct Choice {
    std::string
        text;  // "tile 64x64 splits 2", "group 64x80 splits 2", "blas <hex>", "split_f16 <hex>", "cudnn 1", "plain"
    CUfunction function = nullptr;
    LaunchShape shape;
    unsigned splits = 1;
    bool blas = false;
    std::optional<SplitProduct::Algorithm> split_f16;
    int cudnn = -1;                 // its algorithm
    CUfunction activate = nullptr;  // after cuBLASLt, where that does not know the activation
    cublasLtMatmulAlgo_t algorithm{};
  };
  std::string text_of(const ConvParams& params) const;
  bool has_cudnn_form() const;
  // The activation that cuBLASLt computes itself.
  Activation blas_activation() const;
  // Algorithms of cuBLASLt that lose a NaN are no choices. Writes to y.
  bool keeps_nan(const PrepareContext& context, const Choice& choice) const;
  BlasProduct::Pointers blas_pointers(const Addresses& addresses) const;
  Result<CUfunction> activate_function(const PrepareContext& context) const;
  bool is_product() const;
  bool has_tensor_core_form() const;
  bool has_group_form(const PrepareContext& context) const;
  bool has_blas_form() const;
  bool has_split_form() const { return tensors_.parts != kNoTensor; }
  SplitProblem split_problem() const;
  // Sums of rounded operands are not what this operator is to compute.
  bool exact(const PrepareContext& context) const;
  // The libraries' descriptions of this operator; none where they cannot serve. `only`: one algorithm of cuDNN, or -1.
  void describe_product(const PrepareContext& context);
  void describe_split(const PrepareContext& context);
  void describe_conv(const PrepareContext& context, int only);
  // `far_from_best`: tiles that a rough model expects to take so many times as long as the best are left out.
  Result<std::vector<Choice>> choices(const PrepareContext& context, double far_from_best);
  // Tiles, by number, and splits, what is expected to be fastest first.
  std::vector<std::pair<size_t, unsigned>> likely_tiles(const PrepareContext& context, double far_from_best) const;
  Result<Choice> tile_choice(const PrepareContext& context, size_t tile, unsigned splits) const;
  Choice split_choice(size_t index) const;
  Result<Choice> choice_unmeasured(const PrepareContext& context);
  Result<Choice> plain_choice(const PrepareContext& context) const;
  Result<std::vector<Choice>> borrowed(const PrepareContext& context, const std::vector<std::string>& texts);
  Result<Choice> fastest(const PrepareContext& context, std::vector<Choice> all, bool& hasty) const;
  // Adds what is likely to be fast: tiles by the model of their time, and the library's own first.
  Status add_likely(const PrepareContext& context, std::vector<Choice>& few);
  Result<Choice> blas_choice(const PrepareContext& context, size_t index) const;
  Result<Choice> fastest_of_few(const PrepareContext& context, std::vector<Choice> few) const;
  Result<std::optional<Choice>> remembered(const PrepareContext& context, const std::string& text);
  Status queue_split(const Choice& choice, const CudaDevice& device, CUstream stream, const Addresses& addresses) const;
  Status queue_choice(const Choice& choice, const CudaDevice& device, CUstream stream,
                      const Addresses& addresses) const;

  const DataType type_;
  ConvParams params_;
  const Epilogue epilogue_;
  const ConvTensors tensors_;
  std::unique_ptr<BlasProduct> product_;
  std::unique_ptr<SplitProduct> split_;
  std::unique_ptr<CudnnConv> cudnn_;
  Choice choice_;
};

// A convolution of each channel with its own kernel; weights are [kernel row][kernel column][channel].
class DepthwiseConvOp final : public DeviceOp {
 public:
  DepthwiseConvOp(std::string label, DataType type, const ConvParams& params, const Epilogue& epilogue,
                  const ConvTensors& tensors);
  std::string description(const Program& program) const override;
  Status prepare(const PrepareContext& context) override;
  Status queue(const QueueContext& context) const override;

 private:
  const DataType type_;
  ConvParams params_;
  const ConvTensors tensors_;
  CUfunction function_ = nullptr;
};

}  // namespace tenon::cuda
