// The formulas of ops/activation_list.h in registers. Only for simd/*.cc (see isa.h).
#pragma once

#include "ep/cpu/simd/math8.h"
#include "ops/activation.h"

namespace tenon::cpu::TENON_ISA_NAMESPACE {

// The list's vocabulary on F8.
namespace formula8 {

TENON_INLINE F8 num(F8, double c) { return set8(static_cast<float>(c)); }
// The constant comes first in max8 and min8: then a NaN stays one.
TENON_INLINE F8 larger(F8 a, F8 x) { return max8(a, x); }
TENON_INLINE F8 smaller(F8 a, F8 x) { return min8(a, x); }
TENON_INLINE F8 where_less(F8 a, F8 b, F8 yes, F8 no) { return select_lt8(a, b, yes, no); }
TENON_INLINE F8 multiply_add(F8 x, F8 y, F8 z) { return fma8(x, y, z); }
TENON_INLINE F8 negated(F8 x) { return neg8(x); }
TENON_INLINE F8 abs_of(F8 x) { return abs8(x); }
TENON_INLINE F8 sqrt_of(F8 x) { return sqrt8(x); }
TENON_INLINE F8 exp_of(F8 x) { return exp8(x); }
TENON_INLINE F8 expm1_of(F8 x) { return exp8(x) - set8(1.0f); }
TENON_INLINE F8 log_of(F8 x) { return log8(x); }
TENON_INLINE F8 log1p_of(F8 x) { return log8(set8(1.0f) + x); }
TENON_INLINE F8 erf_of(F8 x) { return erf8(x); }
TENON_INLINE F8 tanh_of(F8 x) { return tanh8(x); }
TENON_INLINE F8 floor_of(F8 x) { return floor8(x); }
TENON_INLINE F8 ceil_of(F8 x) { return neg8(floor8(neg8(x))); }
TENON_INLINE F8 round_of(F8 x) { return round8(x); }
TENON_INLINE F8 sin_of(F8 x) { return sin8(x); }
TENON_INLINE F8 cos_of(F8 x) { return cos8(x); }
TENON_INLINE F8 atan_of(F8 x) { return atan8(x); }
TENON_INLINE F8 gelu_of(F8 x) { return gelu8(x); }
TENON_INLINE F8 gelu_tanh_of(F8 x) { return gelu_tanh8(x); }

template <Unary kFunction>
TENON_INLINE F8 apply(F8 x, [[maybe_unused]] F8 a, [[maybe_unused]] F8 b) {
#define TENON_FORMULA_(Name, text, op, since, alpha, beta, cost, formula) \
  if constexpr (kFunction == Unary::k##Name) return formula;
  TENON_ACTIVATIONS(TENON_FORMULA_)
  TENON_VECTOR_FUNCTIONS(TENON_FORMULA_)
#undef TENON_FORMULA_
}

}  // namespace formula8

template <Unary kFunction>
TENON_INLINE F8 apply8(F8 x, F8 alpha, F8 beta) {
  return formula8::apply<kFunction>(x, alpha, beta);
}

template <Activation kActivation>
TENON_INLINE F8 activate8(F8 x, F8 alpha, F8 beta) {
  return apply8<unary_of(kActivation)>(x, alpha, beta);
}

// Calls body.template operator()<activation>(): one instance of the body for each activation, chosen once.
//   with_activation(a, [&]<Activation kA>() { ... activate8<kA>(x, alpha, beta) ... });
template <typename Body>
TENON_INLINE void with_activation(Activation activation, Body&& body) {
  switch (activation) {
#define TENON_CASE_(Name, ...) \
  case Activation::k##Name:    \
    return body.template operator()<Activation::k##Name>();
    TENON_ACTIVATIONS(TENON_CASE_)
#undef TENON_CASE_
  }
}

}  // namespace tenon::cpu::TENON_ISA_NAMESPACE
