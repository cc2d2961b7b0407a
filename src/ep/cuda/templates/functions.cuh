// Functions of elements for float, double and integers: the vocabulary of ops/activation_list.h, and what the
// operators of ONNX define for NaN, overflow and division by zero (docs/reference/operators.md).
#pragma once

#include "ops/activation.h"

namespace tenon::cuda::device {

__device__ __forceinline__ float infinity_() { return __int_as_float(0x7f800000); }

template <typename T>
__device__ __forceinline__ T num(T, double c) {
  return (T)c;
}
template <typename T>
__device__ __forceinline__ T larger(T a, T x) {
  return x < a ? a : x;
}
template <typename T>
__device__ __forceinline__ T smaller(T a, T x) {
  return a < x ? a : x;
}
template <typename T>
__device__ __forceinline__ T where_less(T a, T b, T yes, T no) {
  return a < b ? yes : no;
}
template <typename T>
__device__ __forceinline__ T multiply_add(T x, T y, T z) {
  return x * y + z;
}
template <typename T>
__device__ __forceinline__ T negated(T x) {
  return (T)-x;
}
template <typename T>
__device__ __forceinline__ T abs_of(T x) {
  return x < 0 ? (T)-x : x;
}
__device__ __forceinline__ float abs_of(float x) { return fabsf(x); }
__device__ __forceinline__ double abs_of(double x) { return fabs(x); }
__device__ __forceinline__ float round_of(float x) { return rintf(x); }
__device__ __forceinline__ double round_of(double x) { return rint(x); }

#define TENON_FUNCTION(name)                                                 \
  __device__ __forceinline__ float name##_of(float x) { return name##f(x); } \
  __device__ __forceinline__ double name##_of(double x) { return name(x); }
TENON_FUNCTION(sqrt)
TENON_FUNCTION(rsqrt)
TENON_FUNCTION(exp)
TENON_FUNCTION(expm1)
TENON_FUNCTION(log)
TENON_FUNCTION(log1p)
TENON_FUNCTION(erf)
TENON_FUNCTION(tanh)
TENON_FUNCTION(floor)
TENON_FUNCTION(ceil)
TENON_FUNCTION(sin)
TENON_FUNCTION(cos)
TENON_FUNCTION(tan)
TENON_FUNCTION(asin)
TENON_FUNCTION(acos)
TENON_FUNCTION(atan)
TENON_FUNCTION(sinh)
TENON_FUNCTION(cosh)
TENON_FUNCTION(asinh)
TENON_FUNCTION(acosh)
TENON_FUNCTION(atanh)
#undef TENON_FUNCTION

template <typename T>
__device__ __forceinline__ T mish_of(T x) {
  const T zero = num(x, 0), two = num(x, 2), t = exp_of(negated(abs_of(x)));
  const T n = where_less(x, zero, t * (t + two), num(x, 1) + two * t);
  return x * (n / (n + where_less(x, zero, two, two * t * t)));
}
template <typename T>
__device__ __forceinline__ T gelu_of(T x) {
  return num(x, 0.5) * x * (num(x, 1) + erf_of(x * num(x, 0.70710678118654752440)));
}
template <typename T>
__device__ __forceinline__ T gelu_tanh_of(T x) {
  return num(x, 0.5) * x * (num(x, 1) + tanh_of(num(x, 0.79788456080286535588) * (x + num(x, 0.044715) * x * x * x)));
}

// An epilogue's activation: its formula of ops/activation_list.h in the type of x.
template <Activation kActivation, typename T>
__device__ __forceinline__ T activate(T x, float alpha, float beta) {
  const T a = num(x, alpha), b = num(x, beta);
  (void)a, (void)b;
#define TENON_FORMULA(Name, text, operator_, since, alpha_, beta_, cost, ...) \
  if constexpr (kActivation == Activation::k##Name) return __VA_ARGS__;
  TENON_ACTIVATIONS(TENON_FORMULA)
#undef TENON_FORMULA
}

// The smaller and the larger of two; NaN where one is NaN.
template <typename T>
__device__ __forceinline__ T min_of(T a, T b) {
  return b < a || b != b ? b : a;
}
template <typename T>
__device__ __forceinline__ T max_of(T a, T b) {
  return b > a || b != b ? b : a;
}

// The whole part of a float as the CPU EP has it: the lowest integer for NaN and for numbers that do not fit, and a
// large unsigned number less half of its type's range. A plain cast saturates on a GPU.
template <typename T>
__device__ __forceinline__ int int_of(T x) {
  return x >= T(-2147483648.0) && x < T(2147483648.0) ? (int)x : -2147483647 - 1;
}
template <typename T>
__device__ __forceinline__ long long long_of(T x) {
  return x >= T(-9223372036854775808.0) && x < T(9223372036854775808.0) ? (long long)x : -9223372036854775807LL - 1;
}
template <typename T>
__device__ __forceinline__ unsigned unsigned_of(T x) {
  return x >= T(2147483648.0) ? (unsigned)int_of(x - T(2147483648.0)) ^ 0x80000000u : (unsigned)int_of(x);
}
template <typename T>
__device__ __forceinline__ unsigned long long unsigned_long_of(T x) {
  return x >= T(9223372036854775808.0)
             ? (unsigned long long)long_of(x - T(9223372036854775808.0)) ^ 0x8000000000000000ULL
             : (unsigned long long)long_of(x);
}

// Of integers a division by zero is 0.
template <typename T>
__device__ __forceinline__ T divide(T a, T b) {
  return b == 0 ? T(0) : a / b;
}
__device__ __forceinline__ float divide(float a, float b) { return a / b; }
__device__ __forceinline__ double divide(double a, double b) { return a / b; }

// The remainder that has the sign of the dividend.
__device__ __forceinline__ float remainder_of(float a, float b) { return fmodf(a, b); }
__device__ __forceinline__ double remainder_of(double a, double b) { return fmod(a, b); }

// The remainder that has the sign of the divisor.
template <typename T>
__device__ __forceinline__ T python_mod(T a, T b) {
  if (b == 0) return T(0);
  T r = a % b;
  return r != 0 && ((r < 0) != (b < 0)) ? r + b : r;
}
// Of floats `r` is the remainder that has the sign of the dividend.
__device__ __forceinline__ float python_mod(float r, float b) { return r != 0 && ((r < 0) != (b < 0)) ? r + b : r; }
__device__ __forceinline__ double python_mod(double r, double b) { return r != 0 && ((r < 0) != (b < 0)) ? r + b : r; }

// a to the power of b, in the type of a.
template <typename A, typename B>
struct Power {
  static __device__ __forceinline__ A of(A a, B b) {
    if (b < 0) return a == 1 ? A(1) : a == A(-1) ? (b & 1 ? a : A(1)) : A(0);
    A r = 1;
    for (; b > 0; b >>= 1, a *= a)
      if (b & 1) r *= a;
    return r;
  }
};
// A power with a fraction keeps to the range of its signed integer; NaN is the least.
template <typename A>
__device__ __forceinline__ A kept(double v) {
  const A least = (A)(~0ULL << (sizeof(A) * 8 - 1)), most = ~least;
  return !(v > (double)least) ? least : v >= (double)most ? most : (A)v;
}
template <typename A>
struct Power<A, float> {
  static __device__ __forceinline__ A of(A a, float b) { return kept<A>(pow((double)a, (double)b)); }
};
template <typename A>
struct Power<A, double> {
  static __device__ __forceinline__ A of(A a, double b) { return kept<A>(pow((double)a, b)); }
};
template <typename B>
struct Power<float, B> {
  static __device__ __forceinline__ float of(float a, B b) { return powf(a, (float)b); }
};
template <typename B>
struct Power<double, B> {
  static __device__ __forceinline__ double of(double a, B b) { return pow(a, (double)b); }
};
template <>
struct Power<float, float> {
  static __device__ __forceinline__ float of(float a, float b) {
    return b == 2.0f ? a * a : b == 0.5f ? sqrtf(a) : powf(a, b);
  }
};
template <>
struct Power<double, float> {
  static __device__ __forceinline__ double of(double a, float b) { return pow(a, (double)b); }
};
template <>
struct Power<float, double> {
  static __device__ __forceinline__ float of(float a, double b) { return (float)pow((double)a, b); }
};
template <>
struct Power<double, double> {
  static __device__ __forceinline__ double of(double a, double b) { return pow(a, b); }
};
template <typename A, typename B>
__device__ __forceinline__ A power(A a, B b) {
  return Power<A, B>::of(a, b);
}

}  // namespace tenon::cuda::device
