// Layer normalisation over the last dimension: a block a row, the row in registers where it fits.
#include "ep/cuda/compute/kernel_params.h"
#include "ep/cuda/ops/matmul/split_f16.cuh"

namespace tenon::cuda::device {

constexpr int kThreads = 128;

// Neighbours of a row, from `column` on, to wherever they are wanted.
template <typename T>
__device__ __forceinline__ void store_normal(const LayerNormParams& p, const float (&values)[Vec<T>::kCount],
                                             int64_t row, int column) {
  if (p.y != nullptr) {
    Vec<T> result;
#pragma unroll
    for (int j = 0; j < Vec<T>::kCount; ++j) result.v[j] = from_float<T>(values[j]);
    *reinterpret_cast<Vec<T>*>(static_cast<T*>(p.y) + row * p.columns + column) = result;
  }
  if constexpr (sizeof(T) == sizeof(float))
    if (p.parts != nullptr)
      store_split(values, p.parts_factor, static_cast<__half*>(p.parts) + row * p.columns * p.terms + column, p.columns,
                  p.terms);
}

// kPerThread elements of the row stay in each thread's registers; the row is at most kThreads * kPerThread long and a
// multiple of the vector. kPerThread 0: any length, read again for each sum.
template <typename T, int kPerThread>
__device__ void layer_norm(const LayerNormParams& p) {
  constexpr int kVector = kPerThread == 0 ? 1 : Vec<T>::kCount;
  const int64_t row = static_cast<int64_t>(blockIdx.x) * p.columns;
  const T* const x = static_cast<const T*>(p.x) + row;
  const T* const skip = p.skip != nullptr ? static_cast<const T*>(p.skip) + row : nullptr;
  T* const sum = p.sum != nullptr ? static_cast<T*>(p.sum) + row : nullptr;
  const float inverse = 1.0f / static_cast<float>(p.columns);
  wait_for_previous_kernel();
  let_next_kernel_start();
  if constexpr (kPerThread != 0) {
    constexpr int kVectors = kPerThread / kVector;
    float value[kVectors][kVector];
    float total = 0;
#pragma unroll
    for (int i = 0; i < kVectors; ++i) {
      const int column = (i * kThreads + threadIdx.x) * kVector;
      if (column < p.columns) {
        const Vec<T> a = *reinterpret_cast<const Vec<T>*>(x + column);
        Vec<T> b{};
        if (skip != nullptr) b = *reinterpret_cast<const Vec<T>*>(skip + column);
        Vec<T> s;
#pragma unroll
        for (int j = 0; j < kVector; ++j) {
          value[i][j] = to_float(a.v[j]) + to_float(b.v[j]);
          s.v[j] = from_float<T>(value[i][j]);
          total += value[i][j];
        }
        if (sum != nullptr) *reinterpret_cast<Vec<T>*>(sum + column) = s;
      } else {
#pragma unroll
        for (int j = 0; j < kVector; ++j) value[i][j] = 0;
      }
    }
    const float mean = block_reduce<kThreads>(total, false) * inverse;
    float squares = 0;
#pragma unroll
    for (int i = 0; i < kVectors; ++i)
      if ((i * kThreads + static_cast<int>(threadIdx.x)) * kVector < p.columns)
#pragma unroll
        for (int j = 0; j < kVector; ++j) squares += (value[i][j] - mean) * (value[i][j] - mean);
    const float scale = rsqrtf(block_reduce<kThreads>(squares, false) * inverse + p.epsilon);
#pragma unroll
    for (int i = 0; i < kVectors; ++i) {
      const int column = (i * kThreads + threadIdx.x) * kVector;
      if (column >= p.columns) continue;
      float result[kVector];
#pragma unroll
      for (int j = 0; j < kVector; ++j) {
        const float bias = p.bias != nullptr ? p.bias[column + j] : 0.0f;
        result[j] = (value[i][j] - mean) * scale * p.scale[column + j] + bias;
      }
      store_normal<T>(p, result, blockIdx.x, column);
    }
  } else {
    const auto value = [&](int c) { return to_float(x[c]) + (skip != nullptr ? to_float(skip[c]) : 0.0f); };
    float total = 0;
    for (int c = threadIdx.x; c < p.columns; c += kThreads) total += value(c);
    const float mean = block_reduce<kThreads>(total, false) * inverse;
    float squares = 0;
    for (int c = threadIdx.x; c < p.columns; c += kThreads) squares += (value(c) - mean) * (value(c) - mean);
    const float scale = rsqrtf(block_reduce<kThreads>(squares, false) * inverse + p.epsilon);
    for (int c = threadIdx.x; c < p.columns; c += kThreads) {
      const float v = value(c);
      if (sum != nullptr) sum[c] = from_float<T>(v);
      static_cast<T*>(p.y)[row + c] =
          from_float<T>((v - mean) * scale * p.scale[c] + (p.bias != nullptr ? p.bias[c] : 0.0f));
    }
  }
}

// A warp a row, without a barrier: rows of at most 32 * kVectors vectors.
template <typename T, int kVectors>
__device__ void layer_norm_warp(const LayerNormParams& p) {
  constexpr int kVector = Vec<T>::kCount;
  const int lane = threadIdx.x % 32;
  const int64_t index = static_cast<int64_t>(blockIdx.x) * (kThreads / 32) + threadIdx.x / 32;
  wait_for_previous_kernel();
  let_next_kernel_start();
  if (index >= p.rows) return;
  const int64_t row = index * p.columns;
  const T* const x = static_cast<const T*>(p.x) + row;
  const T* const skip = p.skip != nullptr ? static_cast<const T*>(p.skip) + row : nullptr;
  const float inverse = 1.0f / static_cast<float>(p.columns);
  Vec<T> a[kVectors], b[kVectors] = {};
#pragma unroll
  for (int i = 0; i < kVectors; ++i) {
    const int column = (i * 32 + lane) * kVector;
    a[i] = Vec<T>{};
    if (column >= p.columns) continue;
    a[i] = *reinterpret_cast<const Vec<T>*>(x + column);
    if (skip != nullptr) b[i] = *reinterpret_cast<const Vec<T>*>(skip + column);
  }
  float value[kVectors][kVector], total = 0;
#pragma unroll
  for (int i = 0; i < kVectors; ++i)
#pragma unroll
    for (int j = 0; j < kVector; ++j) total += value[i][j] = to_float(a[i].v[j]) + to_float(b[i].v[j]);
  const float mean = warp_sum(total) * inverse;
  float squares = 0;
#pragma unroll
  for (int i = 0; i < kVectors; ++i)
    if ((i * 32 + lane) * kVector < p.columns)
#pragma unroll
      for (int j = 0; j < kVector; ++j) squares += (value[i][j] - mean) * (value[i][j] - mean);
  const float scale = rsqrtf(warp_sum(squares) * inverse + p.epsilon);
#pragma unroll
  for (int i = 0; i < kVectors; ++i) {
    const int column = (i * 32 + lane) * kVector;
    if (column >= p.columns) continue;
    float result[kVector];
    Vec<T> sum;
#pragma unroll
    for (int j = 0; j < kVector; j += 4) {
      const float4 g = *reinterpret_cast<const float4*>(p.scale + column + j);
      float4 h = make_float4(0, 0, 0, 0);
      if (p.bias != nullptr) h = *reinterpret_cast<const float4*>(p.bias + column + j);
      const float factors[4] = {g.x, g.y, g.z, g.w}, shifts[4] = {h.x, h.y, h.z, h.w};
#pragma unroll
      for (int k = 0; k < 4; ++k) {
        result[j + k] = (value[i][j + k] - mean) * scale * factors[k] + shifts[k];
        sum.v[j + k] = from_float<T>(value[i][j + k]);
      }
    }
    store_normal<T>(p, result, index, column);
    if (p.sum != nullptr) *reinterpret_cast<Vec<T>*>(static_cast<T*>(p.sum) + row + column) = sum;
  }
}

}  // namespace tenon::cuda::device

#define TENON_KERNEL(name, Params, body)                                                                  \
  extern "C" __global__ void __launch_bounds__(128) name(const __grid_constant__ tenon::cuda::Params p) { \
    using namespace tenon::cuda::device;                                                                  \
    body(p);                                                                                              \
  }
#define TENON_NORM_KERNELS(type, T)                                                                   \
  TENON_KERNEL(layer_norm_8_##type, LayerNormParams, (layer_norm<T, 8>))                              \
  TENON_KERNEL(layer_norm_16_##type, LayerNormParams, (layer_norm<T, 16>))                            \
  TENON_KERNEL(layer_norm_32_##type, LayerNormParams, (layer_norm<T, 32>))                            \
  TENON_KERNEL(layer_norm_warp_##type, LayerNormParams, (layer_norm_warp<T, 1024 * sizeof(T) / 512>)) \
  TENON_KERNEL(layer_norm_##type, LayerNormParams, (layer_norm<T, 0>))

TENON_NORM_KERNELS(f16, __half)
TENON_NORM_KERNELS(bf16, __nv_bfloat16)
TENON_NORM_KERNELS(f32, float)
