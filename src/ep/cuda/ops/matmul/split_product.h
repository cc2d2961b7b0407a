// Products of float32 through cuBLASLt's float16, which tensor cores multiply twice as fast as TF32.
//
// A number is split into two f16 parts, high with 11 bits and low with the rest, after a power of two for each row (of
// x, and of w for each column of the product) has brought the largest number below 2^15. The product is a sum of two or
// three terms, each a product of parts. The parts of a row lie one after the other in the order of the terms:
//
//     three terms: low high high  times  high low high    all but low times low: about 22 bits, as good as float32
//     two terms:        high high  times       low high    x rounded to 11 bits (TF32's), w as it is
//
// So it is one product of two or three times the depth, small terms first. Tensor cores cut off what they add up, and a
// deep sum of numbers of one sign would come out too small: high times high is then a split-K product, rounded after
// each split. An infinity or NaN is only in the last term; a number below 2^-39 of its row's largest is zero there.
//
// Threads: any, once made.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "ep/cuda/compute/blas.h"
#include "ep/cuda/compute/device_op.h"
#include "ep/cuda/compute/kernel_params.h"

namespace tenon::cuda {

struct SplitProblem {
  int32_t rows = 0, columns = 0, depth = 0;
  int32_t terms = 0;

  // The kernels take whole vectors, and products whose depth and sizes stay in 32 bits.
  bool fits() const;
  // The f16 parts of x and their exponents; a multiple of 256.
  size_t scratch_bytes() const;
  // The K splits in which high times high is added to the other terms; 0: all terms are one product.
  int64_t further_splits() const;
  // Of the weights' f16 parts; their exponents, 4 bytes a column, are behind them.
  size_t parts_bytes() const;
};

// The weights [columns][depth] as f16 parts [columns][terms][depth], and behind them the exponent of each column.
void split_weights(std::span<const float> w, const SplitProblem& problem, std::byte* out);
// All of them times 2^shift, which makes finite numbers below 2^15; without exponents.
void split_weights(std::span<const float> w, const SplitProblem& problem, int32_t shift, std::byte* out);

class SplitProduct {
 public:
  // `conv`: of what; without addresses. Errors: kUnsupported where cuBLASLt is not there.
  static Result<std::unique_ptr<SplitProduct>> create(const PrepareContext& context, const SplitProblem& problem,
                                                      const ConvParams& conv);

  struct Algorithm {
    cublasLtMatmulAlgo_t first{}, further{};  // of all terms without further splits, and of one of those
  };
  // Errors: kUnsupported when cuBLASLt has none.
  Status find_algorithms();
  size_t algorithms() const;
  Algorithm algorithm(size_t index) const;
  // As BlasProduct's.
  std::string algorithm_text(size_t index) const;
  Result<Algorithm> remembered(std::string_view text) const;

  // `join` has everything but exponents and sizes.
  struct Pointers {
    const void* x = nullptr;
    CUdeviceptr weights = 0;  // what split_weights() made
    CUdeviceptr scratch = 0;  // scratch_bytes() and the workspace of the program
  };
  Status queue(const CudaDevice& device, const Algorithm& algorithm, const Pointers& pointers, JoinParams join,
               CUstream stream) const;

 private:
  SplitProduct(const SplitProblem& problem, const ConvParams& conv) : problem_(problem), conv_(conv) {}
  size_t first_index(size_t index) const { return index < first_->algorithms() ? index : 0; }
  size_t further_index(size_t index) const {
    return index < first_->algorithms() ? 0 : index - first_->algorithms() + 1;
  }

  const SplitProblem problem_;
  const ConvParams conv_;
  int64_t further_splits_ = 0;
  std::unique_ptr<BlasProduct> first_, further_;  // no further_ where everything is one product
  CUfunction split_ = nullptr, join_ = nullptr;
  unsigned rows_a_block_ = 1;
};

}  // namespace tenon::cuda
