// CUDA's words for a host compiler: what kernels use of the language and of its functions.
#pragma once

#define __device__
#define __forceinline__ inline
#define __global__
#define __shared__ static
#define __launch_bounds__(...)

#define TENON_FUNCTION(name)                \
  extern "C" float name##f(float) noexcept; \
  extern "C" double name(double) noexcept;
TENON_FUNCTION(fabs)
TENON_FUNCTION(exp)
TENON_FUNCTION(log)
TENON_FUNCTION(sqrt)
TENON_FUNCTION(floor)
TENON_FUNCTION(ceil)
TENON_FUNCTION(rint)
TENON_FUNCTION(sin)
TENON_FUNCTION(cos)
TENON_FUNCTION(tan)
TENON_FUNCTION(erf)
TENON_FUNCTION(tanh)
TENON_FUNCTION(log1p)
TENON_FUNCTION(expm1)
TENON_FUNCTION(asin)
TENON_FUNCTION(acos)
TENON_FUNCTION(atan)
TENON_FUNCTION(sinh)
TENON_FUNCTION(cosh)
TENON_FUNCTION(asinh)
TENON_FUNCTION(acosh)
TENON_FUNCTION(atanh)
TENON_FUNCTION(round)
TENON_FUNCTION(trunc)
#undef TENON_FUNCTION
extern "C" float fminf(float, float) noexcept;
extern "C" float fmaxf(float, float) noexcept;
extern "C" float fmodf(float, float) noexcept;
extern "C" float powf(float, float) noexcept;
extern "C" double pow(double, double) noexcept;
extern "C" double fmod(double, double) noexcept;
extern "C" double fmin(double, double) noexcept;
extern "C" double fmax(double, double) noexcept;

struct Coordinates {
  unsigned x, y, z;
};
static Coordinates blockIdx, threadIdx, blockDim, gridDim;

template <typename To, typename From>
static To as(From from) {
  To to;
  __builtin_memcpy(&to, &from, sizeof(to));
  return to;
}
static float __int_as_float(int bits) { return as<float>(bits); }
static float __uint_as_float(unsigned bits) { return as<float>(bits); }
static unsigned __float_as_uint(float number) { return as<unsigned>(number); }
static double __longlong_as_double(long long bits) { return as<double>(bits); }
static unsigned __umulhi(unsigned a, unsigned b) { return (unsigned)((unsigned long long)a * b >> 32); }
template <typename T>
static T atomicAdd(T* at, T v) {
  const T old = *at;
  *at = old + v;
  return old;
}
template <typename T>
static T atomicOr(T* at, T v) {
  const T old = *at;
  *at = old | v;
  return old;
}
template <typename T>
static T atomicMax(T* at, T v) {
  const T old = *at;
  *at = v > old ? v : old;
  return old;
}
template <typename T>
static T atomicMin(T* at, T v) {
  const T old = *at;
  *at = v < old ? v : old;
  return old;
}
static unsigned atomicCAS(unsigned* at, unsigned wanted, unsigned v) {
  const unsigned old = *at;
  if (old == wanted) *at = v;
  return old;
}
static int __dp4a(int a, int b, int sum) {
  for (int n = 0; n < 4; ++n) sum += (int)(signed char)(a >> 8 * n) * (int)(signed char)(b >> 8 * n);
  return sum;
}
static float rsqrtf(float x) { return 1.0f / sqrtf(x); }
static double rsqrt(double x) { return 1.0 / sqrt(x); }
