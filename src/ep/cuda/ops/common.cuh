// Shared by the kernels of this folder: elements as float, vectors of 16 bytes, the order between dependent launches.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cstdint>

#include "ops/activation.h"

namespace tenon::cuda::device {

// Launches may overlap the end of the one before (programmatic dependent launch): nothing that another kernel writes is
// touched before this.
__device__ __forceinline__ void wait_for_previous_kernel() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}
__device__ __forceinline__ void let_next_kernel_start() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
#endif
}

__device__ __forceinline__ float to_float(float v) { return v; }
__device__ __forceinline__ float to_float(__half v) { return __half2float(v); }
__device__ __forceinline__ float to_float(__nv_bfloat16 v) { return __bfloat162float(v); }

template <typename T>
__device__ __forceinline__ T from_float(float v);
template <>
__device__ __forceinline__ float from_float<float>(float v) {
  return v;
}
template <>
__device__ __forceinline__ __half from_float<__half>(float v) {
  return __float2half_rn(v);
}
template <>
__device__ __forceinline__ __nv_bfloat16 from_float<__nv_bfloat16>(float v) {
  return __float2bfloat16_rn(v);
}

// 16 bytes of elements: one load or store.
template <typename T>
struct alignas(16) Vec {
  static constexpr int kCount = 16 / sizeof(T);
  T v[kCount];
};

// x * Phi(x), Phi the distribution of normal numbers: for x >= 0, Phi(-x) = exp(-x^2 / 2) * g(x), and g is fitted by a
// polynomial in 1 / (1 + 0.28 x) to 4e-9. A third of the instructions of erff(), and better in the tail: 1 + erf(x)
// cancels there.
__device__ __forceinline__ float gelu(float x) {
  const float t = __fdividef(1.0f, fmaf(0.28f, fabsf(x), 1.0f));
  float g = -0.107554071f;
  g = fmaf(g, t, 0.396986803f);
  g = fmaf(g, t, -0.24851303f);
  g = fmaf(g, t, 0.278178580f);
  g = fmaf(g, t, 0.0637928852f);
  g = fmaf(g, t, 0.117108785f);
  const float tail = g * t * exp2f(x * x * -0.72134752f);
  return x * (x >= 0.0f ? 1.0f - tail : tail);
}

// The larger and the smaller of two numbers; NaN where one is NaN, of which fmaxf() and fminf() give the other.
__device__ __forceinline__ float max_or_nan(float a, float b) {
  float result;
  asm("max.NaN.f32 %0, %1, %2;" : "=f"(result) : "f"(a), "f"(b));
  return result;
}
__device__ __forceinline__ float min_or_nan(float a, float b) {
  float result;
  asm("min.NaN.f32 %0, %1, %2;" : "=f"(result) : "f"(a), "f"(b));
  return result;
}
__device__ __forceinline__ float clamp(float x, float low, float high) { return min_or_nan(max_or_nan(x, low), high); }

// The formulas of ops/activation_list.h. kFast: exponentials by the hardware's approximation.
template <bool kFast>
struct Formulas {
  static __device__ __forceinline__ float num(float, double c) { return static_cast<float>(c); }
  static __device__ __forceinline__ float larger(float a, float x) { return max_or_nan(a, x); }
  static __device__ __forceinline__ float smaller(float a, float x) { return min_or_nan(a, x); }
  static __device__ __forceinline__ float where_less(float a, float b, float yes, float no) { return a < b ? yes : no; }
  static __device__ __forceinline__ float multiply_add(float x, float y, float z) { return x * y + z; }
  static __device__ __forceinline__ float negated(float x) { return -x; }
  static __device__ __forceinline__ float abs_of(float x) { return fabsf(x); }
  static __device__ __forceinline__ float exp_of(float x) { return kFast ? __expf(x) : expf(x); }
  static __device__ __forceinline__ float expm1_of(float x) { return expm1f(x); }
  static __device__ __forceinline__ float log1p_of(float x) { return log1pf(x); }
  static __device__ __forceinline__ float tanh_of(float x) { return tanhf(x); }
  static __device__ __forceinline__ float mish_of(float x) {
    const float t = exp_of(-fabsf(x)), n = x < 0.0f ? t * (t + 2.0f) : 1.0f + 2.0f * t;
    return x * (n / (n + (x < 0.0f ? 2.0f : 2.0f * t * t)));
  }
  static __device__ __forceinline__ float gelu_of(float x) { return gelu(x); }
  static __device__ __forceinline__ float gelu_tanh_of(float x) {
    return 0.5f * x * (1.0f + tanhf(0.7978845608028654f * (x + 0.044715f * x * x * x)));
  }

  // T is float: formulas whose functions are not there are never compiled.
  template <Unary kFunction, typename T>
  static __device__ __forceinline__ float apply(T x, T a, T b) {
#define TENON_FORMULA_(Name, text, op, since, alpha, beta, cost, formula) \
  if constexpr (kFunction == Unary::k##Name) return formula;
    TENON_FUNCTIONS(TENON_FORMULA_)
#undef TENON_FORMULA_
  }
};

__device__ __forceinline__ float activate(float x, Activation kind, float alpha, float beta) {
  switch (kind) {
#define TENON_CASE_(Name, ...) \
  case Activation::k##Name:    \
    return Formulas<true>::apply<Unary::k##Name>(x, alpha, beta);
    TENON_ACTIVATIONS(TENON_CASE_)
#undef TENON_CASE_
  }
  return x;
}

__device__ __forceinline__ float warp_sum(float v) {
#pragma unroll
  for (int i = 16; i > 0; i /= 2) v += __shfl_xor_sync(~0u, v, i);
  return v;
}
__device__ __forceinline__ float warp_max(float v) {
#pragma unroll
  for (int i = 16; i > 0; i /= 2) v = fmaxf(v, __shfl_xor_sync(~0u, v, i));
  return v;
}

// The sum or maximum over a block of four warps.
template <int kThreads>
__device__ __forceinline__ float block_reduce(float v, bool maximum) {
  __shared__ float here[kThreads / 32];
  static_assert(kThreads == 128);
  v = maximum ? warp_max(v) : warp_sum(v);
  __syncthreads();  // a slow warp may still read the sums of the reduction before
  if (threadIdx.x % 32 == 0) here[threadIdx.x / 32] = v;
  __syncthreads();
  return maximum ? fmaxf(fmaxf(here[0], here[1]), fmaxf(here[2], here[3])) : here[0] + here[1] + here[2] + here[3];
}

__device__ __forceinline__ uint32_t shared_address(const void* p) {
  return static_cast<uint32_t>(__cvta_generic_to_shared(p));
}
// 16 bytes to shared memory in the background; zeros when `valid` is false (then `src` is not read).
__device__ __forceinline__ void copy_async(uint32_t dst, const void* src, bool valid) {
  const int bytes = valid ? 16 : 0;
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(dst), "l"(src), "r"(bytes) : "memory");
}
// 8 bytes.
__device__ __forceinline__ void copy_async_half(uint32_t dst, const void* src, bool valid) {
  const int bytes = valid ? 8 : 0;
  asm volatile("cp.async.ca.shared.global [%0], [%1], 8, %2;" ::"r"(dst), "l"(src), "r"(bytes) : "memory");
}
__device__ __forceinline__ void commit_copies() { asm volatile("cp.async.commit_group;" ::: "memory"); }
template <int kLeft>
__device__ __forceinline__ void wait_for_copies() {
  asm volatile("cp.async.wait_group %0;" ::"n"(kLeft) : "memory");
}

__device__ __forceinline__ void load_matrices(uint32_t (&r)[4], uint32_t address) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
               : "r"(address));
}
__device__ __forceinline__ void load_matrices_transposed(uint32_t (&r)[4], uint32_t address) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3}, [%4];"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
               : "r"(address));
}

// c += a * b over 32 bytes of the inner dimension: 16 f16 or 8 floats rounded to TF32.
template <typename T>
__device__ __forceinline__ void multiply(float (&c)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1);
template <>
__device__ __forceinline__ void multiply<__half>(float (&c)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1) {
  asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
      : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}
template <>
__device__ __forceinline__ void multiply<__nv_bfloat16>(float (&c)[4], const uint32_t (&a)[4], uint32_t b0,
                                                        uint32_t b1) {
  asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
      : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}
template <>
__device__ __forceinline__ void multiply<float>(float (&c)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1) {
  asm("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
      : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

__device__ __forceinline__ uint32_t round_to_tf32(uint32_t bits) {
  uint32_t rounded;
  asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(rounded) : "f"(__uint_as_float(bits)));
  return rounded;
}
// The part that rounding took away, itself a TF32 number: with it a product has nearly the precision of float32.
__device__ __forceinline__ uint32_t tf32_rest(uint32_t bits, uint32_t rounded) {
  return round_to_tf32(__float_as_uint(__uint_as_float(bits) - __uint_as_float(rounded)));
}

}  // namespace tenon::cuda::device
