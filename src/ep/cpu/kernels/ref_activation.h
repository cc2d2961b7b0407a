// Scalar activations, and the epilogue of the internal operators (docs/internal-operators.md) on one value.
#pragma once

#include <algorithm>
#include <cmath>

#include "ep/cpu/activation.h"
#include "ep/cpu/kernels/ref_kernel.h"

namespace tenon::cpu::ref {

template <typename T>
T sigmoid(T x) {
  return T(1) / (T(1) + std::exp(-x));
}
template <typename T>
T softplus(T x) {
  // Does not overflow for large x.
  return x > T(0) ? x + std::log1p(std::exp(-x)) : std::log1p(std::exp(x));
}
template <typename T>
T gelu(T x) {
  return T(0.5) * x * (T(1) + std::erf(x * T(0.70710678118654752440)));
}
template <typename T>
T gelu_tanh(T x) {
  return T(0.5) * x * (T(1) + std::tanh(T(0.79788456080286535588) * (x + T(0.044715) * x * x * x)));
}

// What parse_epilogue reads, computed in double and by formulas of its own: the fast kernels are tested against it.
struct Epilogue {
  Activation activation = Activation::kNone;
  double alpha = 0;
  double beta = 0;
  bool residual_after = false;

  static Result<Epilogue> of(const Node& node);
  double activate(double x) const;
  // `z` is the product plus bias; `residual` 0 when there is none.
  double apply(double z, double residual) const {
    return residual_after ? activate(z) + residual : activate(z + residual);
  }
};

}  // namespace tenon::cpu::ref
