// The formulas of activation_list.h on float, double and integers.
#pragma once

#include <cmath>
#include <cstdint>
#include <type_traits>

#include "ops/activation.h"

namespace tenon {

namespace formula {

template <typename T>
T num(T, double c) {
  return static_cast<T>(c);
}
template <typename T>
T larger(T a, T x) {
  return x < a ? a : x;
}
template <typename T>
T smaller(T a, T x) {
  return a < x ? a : x;
}
template <typename T>
T where_less(T a, T b, T yes, T no) {
  return a < b ? yes : no;
}
template <typename T>
T multiply_add(T x, T y, T z) {
  return static_cast<T>(x * y + z);
}
// Integers wrap around.
template <typename T>
T negated(T x) {
  if constexpr (std::is_floating_point_v<T>) {
    return -x;
  } else {
    return static_cast<T>(uint64_t{0} - static_cast<uint64_t>(x));
  }
}
template <typename T>
T abs_of(T x) {
  if constexpr (std::is_floating_point_v<T>) {
    return std::abs(x);
  } else {
    return x < T(0) ? negated(x) : x;
  }
}
#define TENON_FUNCTION_(name, function) \
  template <typename T>                 \
  T name##_of(T x) {                    \
    return static_cast<T>(function(x)); \
  }
TENON_FUNCTION_(sqrt, std::sqrt)
TENON_FUNCTION_(exp, std::exp)
TENON_FUNCTION_(expm1, std::expm1)
TENON_FUNCTION_(log, std::log)
TENON_FUNCTION_(log1p, std::log1p)
TENON_FUNCTION_(erf, std::erf)
TENON_FUNCTION_(tanh, std::tanh)
TENON_FUNCTION_(floor, std::floor)
TENON_FUNCTION_(ceil, std::ceil)
TENON_FUNCTION_(round, std::nearbyint)
TENON_FUNCTION_(sin, std::sin)
TENON_FUNCTION_(cos, std::cos)
TENON_FUNCTION_(tan, std::tan)
TENON_FUNCTION_(asin, std::asin)
TENON_FUNCTION_(acos, std::acos)
TENON_FUNCTION_(atan, std::atan)
TENON_FUNCTION_(sinh, std::sinh)
TENON_FUNCTION_(cosh, std::cosh)
TENON_FUNCTION_(asinh, std::asinh)
TENON_FUNCTION_(acosh, std::acosh)
TENON_FUNCTION_(atanh, std::atanh)
#undef TENON_FUNCTION_
template <typename T>
T mish_of(T x) {
  const T t = std::exp(-std::abs(x)), n = x < 0 ? t * (t + T(2)) : T(1) + T(2) * t;
  return static_cast<T>(x * (n / (n + (x < 0 ? T(2) : T(2) * t * t))));
}
template <typename T>
T gelu_of(T x) {
  return static_cast<T>(T(0.5) * x * (T(1) + std::erf(x * T(0.70710678118654752440))));
}
template <typename T>
T gelu_tanh_of(T x) {
  return static_cast<T>(T(0.5) * x * (T(1) + std::tanh(T(0.79788456080286535588) * (x + T(0.044715) * x * x * x))));
}

template <Unary kFunction, typename T>
T apply(T x, [[maybe_unused]] T a, [[maybe_unused]] T b) {
#define TENON_FORMULA_(Name, text, op, since, alpha, beta, cost, formula) \
  if constexpr (kFunction == Unary::k##Name) return static_cast<T>(formula);
  TENON_FUNCTIONS(TENON_FORMULA_)
#undef TENON_FORMULA_
}

}  // namespace formula

// The function of one number, chosen at run time.
template <typename T>
T evaluate(Unary function, T x, T a = 0, T b = 0) {
  switch (function) {
#define TENON_CASE_(Name, ...) \
  case Unary::k##Name:         \
    return formula::apply<Unary::k##Name>(x, a, b);
    TENON_FUNCTIONS(TENON_CASE_)
#undef TENON_CASE_
  }
  return x;
}

// The epilogue of `z`, which is the product plus bias; `residual` is 0 where there is none.
inline double evaluate(const Epilogue& epilogue, double z, double residual = 0) {
  const double x = epilogue.residual_after ? z : z + residual;
  const double y = evaluate<double>(unary_of(epilogue.activation), x, epilogue.alpha, epilogue.beta);
  return epilogue.residual_after ? y + residual : y;
}

}  // namespace tenon
