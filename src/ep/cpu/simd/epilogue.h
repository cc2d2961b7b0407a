// Activations in registers. Only for simd/*.cc (see isa.h).
#pragma once

#include "ep/cpu/activation.h"
#include "ep/cpu/simd/math8.h"

namespace tenon::cpu::TENON_ISA_NAMESPACE {

template <Activation kActivation>
TENON_INLINE F8 activate8(F8 x, F8 alpha, F8 beta) {
  // The constant comes first in max8 and min8: then a NaN stays one.
  if constexpr (kActivation == Activation::kRelu) return max8(zero8(), x);
  if constexpr (kActivation == Activation::kClip) return min8(beta, max8(alpha, x));
  if constexpr (kActivation == Activation::kLeakyRelu) return select_lt8(x, zero8(), x * alpha, x);
  if constexpr (kActivation == Activation::kSigmoid) return sigmoid8(x);
  if constexpr (kActivation == Activation::kHardSigmoid) return clamp8(fma8(x, alpha, beta), 0, 1);
  if constexpr (kActivation == Activation::kHardSwish) return x * clamp8(fma8(x, alpha, beta), 0, 1);
  if constexpr (kActivation == Activation::kSilu) return x / (set8(1.0f) + exp8(neg8(x)));
  if constexpr (kActivation == Activation::kGelu) return gelu8(x);
  if constexpr (kActivation == Activation::kGeluTanh) return gelu_tanh8(x);
  if constexpr (kActivation == Activation::kTanh) return tanh8(x);
  return x;
}

// Calls body.template operator()<activation>(): one instance of the body for each activation, chosen once.
//   with_activation(a, [&]<Activation kA>() { ... activate8<kA>(x, alpha, beta) ... });
template <typename Body>
TENON_INLINE void with_activation(Activation activation, Body&& body) {
  switch (activation) {
    case Activation::kNone:
      return body.template operator()<Activation::kNone>();
    case Activation::kRelu:
      return body.template operator()<Activation::kRelu>();
    case Activation::kClip:
      return body.template operator()<Activation::kClip>();
    case Activation::kLeakyRelu:
      return body.template operator()<Activation::kLeakyRelu>();
    case Activation::kSigmoid:
      return body.template operator()<Activation::kSigmoid>();
    case Activation::kHardSigmoid:
      return body.template operator()<Activation::kHardSigmoid>();
    case Activation::kHardSwish:
      return body.template operator()<Activation::kHardSwish>();
    case Activation::kSilu:
      return body.template operator()<Activation::kSilu>();
    case Activation::kGelu:
      return body.template operator()<Activation::kGelu>();
    case Activation::kGeluTanh:
      return body.template operator()<Activation::kGeluTanh>();
    case Activation::kTanh:
      return body.template operator()<Activation::kTanh>();
  }
}

}  // namespace tenon::cpu::TENON_ISA_NAMESPACE
