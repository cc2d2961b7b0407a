// The formulas of ops/activation_list.h in registers. Only for simd/*.cc (see isa.h).
#pragma once

#include "ep/cpu/simd/math8.h"
#include "ops/activation.h"

namespace tenon::cpu::TENON_ISA_NAMESPACE {

// The list's vocabulary on an F8 or FW.
namespace formula8 {

template <typename F>
TENON_INLINE F num(F, double c) {
  return splat<F>(static_cast<float>(c));
}
// The constant comes first in max8 and min8: then a NaN stays one.
TENON_INLINE auto larger(auto a, auto x) { return max8(a, x); }
TENON_INLINE auto smaller(auto a, auto x) { return min8(a, x); }
TENON_INLINE auto where_less(auto a, auto b, auto yes, auto no) { return select_lt8(a, b, yes, no); }
TENON_INLINE auto multiply_add(auto x, auto y, auto z) { return fma8(x, y, z); }
TENON_INLINE auto negated(auto x) { return neg8(x); }
TENON_INLINE auto abs_of(auto x) { return abs8(x); }
TENON_INLINE auto sqrt_of(auto x) { return sqrt8(x); }
TENON_INLINE auto exp_of(auto x) { return exp8(x); }
TENON_INLINE auto expm1_of(auto x) { return exp8(x) - num(x, 1); }
TENON_INLINE auto log_of(auto x) { return log8(x); }
// From 0 to 1; with what the rounding of the sum loses, which is all of a small x.
TENON_INLINE auto log1p_of(auto x) {
  const auto sum = num(x, 1) + x;
  return log8(sum) + (x - (sum - num(x, 1)));
}
TENON_INLINE auto erf_of(auto x) { return erf8(x); }
TENON_INLINE auto tanh_of(auto x) { return tanh8(x); }
TENON_INLINE auto floor_of(auto x) { return floor8(x); }
TENON_INLINE auto ceil_of(auto x) { return neg8(floor8(neg8(x))); }
TENON_INLINE auto round_of(auto x) { return round8(x); }
TENON_INLINE auto sin_of(auto x) { return sin8(x); }
TENON_INLINE auto cos_of(auto x) { return cos8(x); }
TENON_INLINE auto atan_of(auto x) { return atan8(x); }
TENON_INLINE auto tan_of(auto x) { return tan8(x); }
TENON_INLINE auto asin_of(auto x) { return asin8(x); }
TENON_INLINE auto acos_of(auto x) { return acos8(x); }
TENON_INLINE auto sinh_of(auto x) { return sinh8(x); }
TENON_INLINE auto cosh_of(auto x) { return cosh8(x); }
TENON_INLINE auto asinh_of(auto x) { return asinh8(x); }
TENON_INLINE auto acosh_of(auto x) { return acosh8(x); }
TENON_INLINE auto atanh_of(auto x) { return atanh8(x); }
TENON_INLINE auto mish_of(auto x) {
  const auto zero = num(x, 0), two = num(x, 2), t = exp8(neg8(abs8(x)));
  const auto n = select_lt8(x, zero, t * (t + two), num(x, 1) + two * t);
  return x * (n / (n + select_lt8(x, zero, two, two * t * t)));
}
TENON_INLINE auto gelu_of(auto x) { return gelu8(x); }
TENON_INLINE auto gelu_tanh_of(auto x) { return gelu_tanh8(x); }

template <Unary kFunction, typename F>
TENON_INLINE F apply(F x, [[maybe_unused]] F a, [[maybe_unused]] F b) {
#define TENON_FORMULA_(Name, text, op, since, alpha, beta, cost, formula) \
  if constexpr (kFunction == Unary::k##Name) return formula;
  TENON_ACTIVATIONS(TENON_FORMULA_)
  TENON_VECTOR_FUNCTIONS(TENON_FORMULA_)
#undef TENON_FORMULA_
}

}  // namespace formula8

template <Unary kFunction, typename F>
TENON_INLINE F apply8(F x, F alpha, F beta) {
  return formula8::apply<kFunction>(x, alpha, beta);
}

template <Activation kActivation, typename F>
TENON_INLINE F activate8(F x, F alpha, F beta) {
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
