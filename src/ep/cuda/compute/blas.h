// Matrix products through cuBLASLt: the product described in row-major terms, its algorithms, and how one is queued.
//
// Threads: any; a product is immutable once made.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "ep/cuda/compute/activation.h"
#include "ep/cuda/driver/cublaslt.h"
#include "ep/cuda/driver/cuda_device.h"

namespace tenon::cuda {

// y[b] = epilogue(scale * x[b] * w[b] + bias + residual[b]): x is [rows, depth], w [depth, columns] (or
// [columns, depth] with transposed_w), both of one type; strides in elements, 0 for the same matrix in every batch.
struct BlasProblem {
  DataType type = DataType::kFloat;
  DataType result = DataType::kUndefined;  // of y and the residual; kUndefined: the operands' type
  bool tf32 = true;
  int64_t rows = 0, columns = 0, depth = 0;
  bool transposed_w = false;
  // Elements from one row of x to the next, and from one of a transposed w to the next; 0: depth.
  int64_t x_row = 0, w_row = 0;
  int64_t batch = 1, x_stride = 0, w_stride = 0, y_stride = 0;
  bool bias = false, residual = false;
  // kNone, kRelu (ask keeps_nan()), and kGelu or kGeluTanh (computed with tanh).
  Activation activation = Activation::kNone;
  float scale = 1;
  size_t workspace_bytes = 0;  // algorithms that want more are left out
};

class BlasHandle {
 public:
  // Errors: kNotFound where cuBLASLt is not there.
  static Result<std::unique_ptr<BlasHandle>> create();
  ~BlasHandle();
  BlasHandle(const BlasHandle&) = delete;
  BlasHandle& operator=(const BlasHandle&) = delete;

  const CublasLt& library() const { return library_; }
  cublasLtHandle_t native() const { return handle_; }
  size_t version() const { return library_.GetVersion(); }

 private:
  BlasHandle(const CublasLt& library, cublasLtHandle_t handle) : library_(library), handle_(handle) {}
  const CublasLt& library_;
  const cublasLtHandle_t handle_;
};

// Does the set-up of cuBLASLt's first product of a type, which takes 60 to 90 ms, and of the first with a result of
// another one, 40 ms; any later one then takes no time. A failure comes again, and is told, where the product is.
void warm_up(const BlasHandle& handle, DataType type, DataType result, bool tf32);

class BlasProduct {
 public:
  // Described, without algorithms: looking for those takes longer than all else.
  static Result<std::unique_ptr<BlasProduct>> create(const BlasHandle& handle, const BlasProblem& problem);
  ~BlasProduct();
  BlasProduct(const BlasProduct&) = delete;
  BlasProduct& operator=(const BlasProduct&) = delete;

  // Errors: kUnsupported when cuBLASLt has none.
  Status find_algorithms();
  size_t algorithms() const { return algorithms_.size(); }
  // Text that remembered() reads again.
  std::string algorithm_text(size_t index) const;
  // Errors: kInvalidArgument for a text that is no algorithm, or none of this product.
  Result<cublasLtMatmulAlgo_t> remembered(const std::string& text) const;
  const cublasLtMatmulAlgo_t& algorithm(size_t index) const { return algorithms_[index]; }

  struct Pointers {
    const void* x = nullptr;
    const void* w = nullptr;
    const void* bias = nullptr;  // of the product's type
    const void* residual = nullptr;
    void* y = nullptr;
    void* workspace = nullptr;
  };
  Status queue(const cublasLtMatmulAlgo_t& algorithm, const Pointers& pointers, CUstream stream) const;
  // Whether a NaN before the epilogue is a NaN in y. cuBLASLt does not promise it: some algorithms of its ReLU give 0
  // (version 13.1 on an H200, the products of a ResNet-50: 21 of 192 for TF32, none of 188 for float16). Runs the
  // algorithm once, which overwrites y with NaNs, and waits for it.
  Result<bool> keeps_nan(const CudaDriver& driver, const cublasLtMatmulAlgo_t& algorithm, const Pointers& pointers,
                         CUstream stream) const;

 private:
  explicit BlasProduct(const BlasHandle& handle, const BlasProblem& problem) : handle_(handle), problem_(problem) {}
  Status describe();
  Status queue_scaled(const cublasLtMatmulAlgo_t& algorithm, float scale, const Pointers& pointers,
                      CUstream stream) const;

  const BlasHandle& handle_;
  const BlasProblem problem_;
  cublasLtMatmulDesc_t operation_ = nullptr;
  cublasLtMatrixLayout_t w_ = nullptr, x_ = nullptr, y_ = nullptr;
  std::vector<cublasLtMatmulAlgo_t> algorithms_;
};

}  // namespace tenon::cuda
