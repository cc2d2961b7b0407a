// Products of float32 on the tensor cores of float16: operands are split into two f16 parts of 11 bits before, and
// the product is scaled back after. Both scale by powers of two, which rounds nothing.
#include "ep/cuda/compute/kernel_params.h"
#include "ep/cuda/ops/matmul/split_f16.cuh"

namespace tenon::cuda::device {

constexpr int kThreads = 128, kElements = 8;  // that a thread splits at a time

// `kWidth` threads share a row, and keep its elements where it has no more than they have room for. Its largest finite
// number gets an exponent of 14, so that no part overflows and what is lost below the second part is 2^-39 of it.
// kImage: a row is what a convolution's window sees, as in conv/gemm.cuh; else rows lie one after the other.
template <int kWidth, bool kImage>
struct SplitRows {
  static constexpr int kVectors = 6, kSpan = kWidth * kVectors * kElements;

  const ConvParams& conv;
  const int lane, row;
  const float* image;
  int top = 0, left = 0;

  __device__ explicit SplitRows(const ConvParams& p)
      : conv(p),
        lane(threadIdx.x % kWidth),
        row(blockIdx.x * (kThreads / kWidth) + threadIdx.x / kWidth),
        image(static_cast<const float*>(p.x)) {
    if constexpr (kImage) {
      const int area = p.out_h * p.out_w, index = row / area, rest = row - index * area;
      image += static_cast<int64_t>(index) * p.in_h * p.in_w * p.in_c;
      top = rest / p.out_w * p.stride_h - p.pad_h;
      left = rest % p.out_w * p.stride_w - p.pad_w;
    } else {
      image += static_cast<int64_t>(row) * p.depth;
    }
  }

  // Null for padding.
  __device__ __forceinline__ const float* source(int i) const {
    if constexpr (!kImage) return image + i;
    const int tap = i / conv.in_c, channel = i - tap * conv.in_c, kernel_row = tap / conv.kernel_w;
    const int h = top + kernel_row * conv.dilation_h, w = left + (tap - kernel_row * conv.kernel_w) * conv.dilation_w;
    const bool inside = static_cast<unsigned>(h) < static_cast<unsigned>(conv.in_h) &&
                        static_cast<unsigned>(w) < static_cast<unsigned>(conv.in_w);
    return inside ? image + (h * conv.in_w + w) * conv.in_c + channel : nullptr;
  }

  __device__ __forceinline__ void load(float (&values)[kVectors][kElements], int first) const {
#pragma unroll
    for (int v = 0; v < kVectors; ++v) {
      const int i = first + (v * kWidth + lane) * kElements;
      const float* const from = row < conv.pixels && i < conv.depth ? source(i) : nullptr;
#pragma unroll
      for (int j = 0; j < kElements; j += 4) {
        const float4 four = from != nullptr ? *reinterpret_cast<const float4*>(from + j) : float4{};
        values[v][j] = four.x, values[v][j + 1] = four.y, values[v][j + 2] = four.z, values[v][j + 3] = four.w;
      }
    }
  }

  __device__ __forceinline__ void store(const float (&values)[kVectors][kElements], int first, float factor, __half* to,
                                        int terms) const {
#pragma unroll
    for (int v = 0; v < kVectors; ++v) {
      const int i = first + (v * kWidth + lane) * kElements;
      if (i >= conv.depth) break;
      store_split<kElements>(values[v], factor, to + i, conv.depth, terms);
    }
  }
};

template <int kWidth, bool kImage>
__device__ void split_all(const SplitParams& p) {
  wait_for_previous_kernel();
  let_next_kernel_start();
  using Rows = SplitRows<kWidth, kImage>;
  const Rows rows(p.conv);
  const int depth = p.conv.depth;
  float values[Rows::kVectors][kElements];
  uint32_t largest = 0;
  for (int first = 0; first < depth; first += Rows::kSpan) {
    rows.load(values, first);
#pragma unroll
    for (int v = 0; v < Rows::kVectors; ++v)
#pragma unroll
      for (int j = 0; j < kElements; ++j)
        if (magnitude(values[v][j]) < kInfinity) largest = max(largest, magnitude(values[v][j]));
  }
#pragma unroll
  for (int i = min(kWidth, 32) / 2; i > 0; i /= 2) largest = max(largest, __shfl_xor_sync(~0u, largest, i));
  if constexpr (kWidth > 32) {
    __shared__ uint32_t of_warps[kThreads / 32];
    if (threadIdx.x % 32 == 0) of_warps[threadIdx.x / 32] = largest;
    __syncthreads();
#pragma unroll
    for (int warp = 0; warp < kThreads / 32; ++warp) largest = max(largest, of_warps[warp]);
  }
  if (rows.row >= p.conv.pixels) return;
  const int shift = min(14 + 127 - static_cast<int>(largest >> 23), 126);
  const float factor = __uint_as_float(static_cast<uint32_t>(shift + 127) << 23);
  if (rows.lane == 0) p.exponents[rows.row] = -shift;
  __half* const to = static_cast<__half*>(p.parts) + static_cast<int64_t>(rows.row) * depth * p.terms;
  for (int first = 0; first < depth; first += Rows::kSpan) {
    if (depth > Rows::kSpan) rows.load(values, first);
    rows.store(values, first, factor, to, p.terms);
  }
}

// 2^exponent in two steps: one alone may be out of range.
__device__ __forceinline__ float scaled_by(float x, int exponent) {
  const int first = exponent / 2;
  return x * __uint_as_float(static_cast<uint32_t>(first + 127) << 23) *
         __uint_as_float(static_cast<uint32_t>(exponent - first + 127) << 23);
}

__device__ __forceinline__ void load(float (&values)[kElements], const float* from) {
#pragma unroll
  for (int j = 0; j < kElements; j += 4) {
    const float4 four = *reinterpret_cast<const float4*>(from + j);
    values[j] = four.x, values[j + 1] = four.y, values[j + 2] = four.z, values[j + 3] = four.w;
  }
}

__device__ void join_all(const JoinParams& p) {
  wait_for_previous_kernel();
  let_next_kernel_start();
  const uint32_t i = blockIdx.x * kThreads + threadIdx.x, vectors = static_cast<uint32_t>(p.columns) / kElements;
  const uint32_t row = i / vectors, column = i % vectors * kElements;
  if (row >= static_cast<uint32_t>(p.rows)) return;
  const uint32_t at = i * kElements;
  float values[kElements], bias[kElements] = {}, residual[kElements] = {};
  load(values, p.product + at);
  if (p.bias != nullptr) load(bias, p.bias + column);
  if (p.residual != nullptr) load(residual, static_cast<const float*>(p.residual) + at);
  if (p.row_exponents != nullptr) {
    const int exponent = p.row_exponents[row];
    const int4* const exponents = reinterpret_cast<const int4*>(p.column_exponents + column);
    static_assert(kElements == 8);
    const int4 first = exponents[0], last = exponents[1];
    const int of_columns[kElements] = {first.x, first.y, first.z, first.w, last.x, last.y, last.z, last.w};
#pragma unroll
    for (int j = 0; j < kElements; ++j) values[j] = scaled_by(values[j], exponent + of_columns[j]);
  }
#pragma unroll
  for (int j = 0; j < kElements; ++j) {
    float z = values[j] * p.scale + bias[j];
    if (!p.residual_after) z += residual[j];
    z = activate(z, p.activation, p.alpha, p.beta);
    values[j] = p.residual_after ? z + residual[j] : z;
  }
  if (p.y != nullptr)
#pragma unroll
    for (int j = 0; j < kElements; j += 4)
      *reinterpret_cast<float4*>(static_cast<float*>(p.y) + at + j) =
          make_float4(values[j], values[j + 1], values[j + 2], values[j + 3]);
  if (p.parts != nullptr) {
    __half* const to = static_cast<__half*>(p.parts) + static_cast<int64_t>(row) * p.columns * p.terms + column;
    store_split<kElements>(values, p.parts_factor, to, p.columns, p.terms);
  }
}

}  // namespace tenon::cuda::device

#define TENON_SPLIT_KERNEL(name, Params, body)                                                            \
  extern "C" __global__ void __launch_bounds__(128) name(const __grid_constant__ tenon::cuda::Params p) { \
    using namespace tenon::cuda::device;                                                                  \
    body(p);                                                                                              \
  }
#define TENON_SPLIT_KERNELS(width)                                               \
  TENON_SPLIT_KERNEL(split_rows_##width, SplitParams, (split_all<width, false>)) \
  TENON_SPLIT_KERNEL(split_image_##width, SplitParams, (split_all<width, true>))
TENON_SPLIT_KERNELS(8)
TENON_SPLIT_KERNELS(32)
TENON_SPLIT_KERNELS(128)
TENON_SPLIT_KERNEL(join_rows, JoinParams, join_all)
