// Convolutions without tensor cores: depthwise ones, a thread for some channels of one pixel, and a plain one for
// whatever else there is; pooling. Channels last.
#include "common.cuh"
#include "ep/cuda/compute/kernel_params.h"

namespace tenon::cuda::device {

template <typename T>
__device__ __forceinline__ void finish_pixel(const ConvParams& p, int64_t at, int channel, float z) {
  z *= p.scale;
  if (p.bias != nullptr) z += p.bias[channel];
  const float r = p.residual != nullptr ? to_float(static_cast<const T*>(p.residual)[at]) : 0.0f;
  if (!p.residual_after) z += r;
  z = activate(z, p.activation, p.alpha, p.beta);
  if (p.residual_after) z += r;
  static_cast<T*>(p.y)[at] = from_float<T>(z);
}

template <typename T>
__device__ void conv_plain(const ConvParams& p) {
  wait_for_previous_kernel();
  let_next_kernel_start();
  const int64_t count = static_cast<int64_t>(p.pixels) * p.channels;
  const int group_in = p.in_c / p.group, group_out = p.channels / p.group;
  for (int64_t at = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x; at < count;
       at += static_cast<int64_t>(gridDim.x) * blockDim.x) {
    const int channel = at % p.channels, pixel = at / p.channels;
    const int ow = pixel % p.out_w, oh = pixel / p.out_w % p.out_h, image = pixel / (p.out_w * p.out_h);
    const int first = channel / group_out * group_in;
    const T* const w = static_cast<const T*>(p.w) + static_cast<int64_t>(channel) * p.depth;
    float sum = 0;
    for (int r = 0; r < p.kernel_h; ++r) {
      const int h = oh * p.stride_h - p.pad_h + r * p.dilation_h;
      if (h < 0 || h >= p.in_h) continue;
      for (int s = 0; s < p.kernel_w; ++s) {
        const int v = ow * p.stride_w - p.pad_w + s * p.dilation_w;
        if (v < 0 || v >= p.in_w) continue;
        const T* const x =
            static_cast<const T*>(p.x) + ((static_cast<int64_t>(image) * p.in_h + h) * p.in_w + v) * p.in_c + first;
        const T* const k = w + (r * p.kernel_w + s) * group_in;
        for (int c = 0; c < group_in; ++c) sum += to_float(x[c]) * to_float(k[c]);
      }
    }
    finish_pixel<T>(p, at, channel, sum);
  }
}

// Weights are [kernel row][kernel column][channel] here; channels a multiple of the vector. kSize 0: any.
template <typename T, int kSize, int kStride>
__device__ void conv_depthwise(const ConvParams& p) {
  constexpr int kVector = Vec<T>::kCount;
  const int kernel_h = kSize != 0 ? kSize : p.kernel_h, kernel_w = kSize != 0 ? kSize : p.kernel_w;
  const int stride_h = kStride != 0 ? kStride : p.stride_h, stride_w = kStride != 0 ? kStride : p.stride_w;
  const int dilation_h = kSize != 0 ? 1 : p.dilation_h, dilation_w = kSize != 0 ? 1 : p.dilation_w;
  const int vectors = p.channels / kVector;
  const int64_t i = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  wait_for_previous_kernel();
  let_next_kernel_start();
  if (i >= static_cast<int64_t>(p.pixels) * vectors) return;
  const int pixel = i / vectors, channel = (i - static_cast<int64_t>(pixel) * vectors) * kVector;
  const int ow = pixel % p.out_w, oh = pixel / p.out_w % p.out_h, image = pixel / (p.out_w * p.out_h);
  const int top = oh * stride_h - p.pad_h, left = ow * stride_w - p.pad_w;
  float sum[kVector] = {};
#pragma unroll
  for (int r = 0; r < kernel_h; ++r) {
    const int h = top + r * dilation_h;
    if (h < 0 || h >= p.in_h) continue;
    const T* const row =
        static_cast<const T*>(p.x) + (static_cast<int64_t>(image) * p.in_h + h) * p.in_w * p.in_c + channel;
#pragma unroll
    for (int s = 0; s < kernel_w; ++s) {
      const int v = left + s * dilation_w;
      if (v < 0 || v >= p.in_w) continue;
      const Vec<T> x = *reinterpret_cast<const Vec<T>*>(row + v * p.in_c);
      const Vec<T> w =
          *reinterpret_cast<const Vec<T>*>(static_cast<const T*>(p.w) + (r * kernel_w + s) * p.channels + channel);
#pragma unroll
      for (int j = 0; j < kVector; ++j) sum[j] += to_float(x.v[j]) * to_float(w.v[j]);
    }
  }
  const int64_t at = static_cast<int64_t>(pixel) * p.channels + channel;
  Vec<T> residual{}, result;
  if (p.residual != nullptr) residual = *reinterpret_cast<const Vec<T>*>(static_cast<const T*>(p.residual) + at);
#pragma unroll
  for (int j = 0; j < kVector; ++j) {
    float z = sum[j] * p.scale;
    if (p.bias != nullptr) z += p.bias[channel + j];
    const float r = to_float(residual.v[j]);
    if (!p.residual_after) z += r;
    z = activate(z, p.activation, p.alpha, p.beta);
    if (p.residual_after) z += r;
    result.v[j] = from_float<T>(z);
  }
  *reinterpret_cast<Vec<T>*>(static_cast<T*>(p.y) + at) = result;
}

// A thread a pixel: it writes all kPadded channels at once.
template <typename T, int kPadded>
__device__ void pad_image(const ImageParams& p) {
  struct alignas(kPadded * sizeof(T)) Pack {
    T v[kPadded];
  };
  wait_for_previous_kernel();
  let_next_kernel_start();
  const int64_t i = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (i >= static_cast<int64_t>(p.images) * p.area) return;
  const int64_t image = i / p.area, pixel = i - image * p.area;
  const T* const x = static_cast<const T*>(p.x) + image * p.channels * p.area + pixel;
  Pack pack;
#pragma unroll
  for (int c = 0; c < kPadded; ++c)
    pack.v[c] = c < p.channels ? x[static_cast<int64_t>(c) * p.area] : from_float<T>(0.0f);
  static_cast<Pack*>(p.y)[i] = pack;
}

// y = act(y), for products whose library does not know the activation.
template <typename T>
__device__ void activate_all(const ActivateParams& p) {
  wait_for_previous_kernel();
  let_next_kernel_start();
  const int64_t i = (static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x) * Vec<T>::kCount;
  if (i >= p.count) return;
  T* const y = static_cast<T*>(p.y) + i;
  Vec<T> values = *reinterpret_cast<const Vec<T>*>(y);
#pragma unroll
  for (int j = 0; j < Vec<T>::kCount; ++j)
    values.v[j] = from_float<T>(activate(to_float(values.v[j]), p.activation, p.alpha, p.beta));
  *reinterpret_cast<Vec<T>*>(y) = values;
}

template <typename T, int kVector>
__device__ void pool(const PoolParams& p) {
  struct alignas(kVector * sizeof(T)) Pack {
    T v[kVector];
  };
  wait_for_previous_kernel();
  let_next_kernel_start();
  const int64_t i = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (i >= p.count) return;
  const int vectors = p.channels / kVector;
  const int pixel = i / vectors, channel = (i - static_cast<int64_t>(pixel) * vectors) * kVector;
  const int ow = pixel % p.out_w, oh = pixel / p.out_w % p.out_h, image = pixel / (p.out_w * p.out_h);
  const int top = oh * p.stride_h - p.pad_h, left = ow * p.stride_w - p.pad_w;
  float value[kVector];
  for (int j = 0; j < kVector; ++j) value[j] = p.average ? 0.0f : -INFINITY;
  int inside = 0, padded = 0;
  for (int r = 0; r < p.kernel_h; ++r) {
    const int h = top + r * p.dilation_h;
    for (int s = 0; s < p.kernel_w; ++s) {
      const int v = left + s * p.dilation_w;
      padded += h < p.in_h + p.pad_end_h && v < p.in_w + p.pad_end_w;
      if (h < 0 || h >= p.in_h || v < 0 || v >= p.in_w) continue;
      ++inside;
      const Pack x = *reinterpret_cast<const Pack*>(
          static_cast<const T*>(p.x) + ((static_cast<int64_t>(image) * p.in_h + h) * p.in_w + v) * p.channels +
          channel);
      for (int j = 0; j < kVector; ++j) {
        const float f = to_float(x.v[j]);
        value[j] = p.average ? value[j] + f : (f > value[j] || f != f ? f : value[j]);
      }
    }
  }
  const float divisor = p.average ? static_cast<float>(p.count_padding ? padded : inside) : 1.0f;
  Pack result;
  for (int j = 0; j < kVector; ++j) result.v[j] = from_float<T>(p.average ? value[j] / divisor : value[j]);
  *reinterpret_cast<Pack*>(static_cast<T*>(p.y) + static_cast<int64_t>(pixel) * p.channels + channel) = result;
}

// The mean of all pixels: one block for 32 vectors of channels of an image, its warps share the pixels.
template <typename T, int kVector>
__device__ void global_average(const PoolParams& p) {
  struct alignas(kVector * sizeof(T)) Pack {
    T v[kVector];
  };
  __shared__ float sums[8][32][kVector + 1];
  wait_for_previous_kernel();
  let_next_kernel_start();
  const int lane = threadIdx.x, part = threadIdx.y;
  const int vectors = p.channels / kVector, vector = blockIdx.x * 32 + lane;
  const int area = p.in_h * p.in_w;
  float sum[kVector] = {};
  if (vector < vectors) {
    const T* const x =
        static_cast<const T*>(p.x) + static_cast<int64_t>(blockIdx.y) * area * p.channels + vector * kVector;
    for (int i = part; i < area; i += 8) {
      const Pack pack = *reinterpret_cast<const Pack*>(x + static_cast<int64_t>(i) * p.channels);
      for (int j = 0; j < kVector; ++j) sum[j] += to_float(pack.v[j]);
    }
  }
  for (int j = 0; j < kVector; ++j) sums[part][lane][j] = sum[j];
  __syncthreads();
  if (part != 0 || vector >= vectors) return;
  Pack result;
  for (int j = 0; j < kVector; ++j) {
    float all = 0;
    for (int i = 0; i < 8; ++i) all += sums[i][lane][j];
    result.v[j] = from_float<T>(all / static_cast<float>(area));
  }
  *reinterpret_cast<Pack*>(static_cast<T*>(p.y) + static_cast<int64_t>(blockIdx.y) * p.channels + vector * kVector) =
      result;
}

}  // namespace tenon::cuda::device

#define TENON_KERNEL(name, Params, body)                                           \
  extern "C" __global__ void name(const __grid_constant__ tenon::cuda::Params p) { \
    using namespace tenon::cuda::device;                                           \
    body(p);                                                                       \
  }
#define TENON_DIRECT_KERNELS(type, T)                                                         \
  TENON_KERNEL(pad_image_4_##type, ImageParams, (pad_image<T, 4>))                            \
  TENON_KERNEL(pad_image_8_##type, ImageParams, (pad_image<T, 16 / sizeof(T)>))               \
  TENON_KERNEL(activate_##type, ActivateParams, activate_all<T>)                              \
  TENON_KERNEL(conv_plain_##type, ConvParams, conv_plain<T>)                                  \
  TENON_KERNEL(conv_depthwise_##type, ConvParams, (conv_depthwise<T, 0, 0>))                  \
  TENON_KERNEL(conv_depthwise3_##type, ConvParams, (conv_depthwise<T, 3, 1>))                 \
  TENON_KERNEL(conv_depthwise3s2_##type, ConvParams, (conv_depthwise<T, 3, 2>))               \
  TENON_KERNEL(conv_depthwise5_##type, ConvParams, (conv_depthwise<T, 5, 1>))                 \
  TENON_KERNEL(pool_vector_##type, PoolParams, (pool<T, 16 / sizeof(T)>))                     \
  TENON_KERNEL(pool_##type, PoolParams, (pool<T, 1>))                                         \
  TENON_KERNEL(global_average_vector_##type, PoolParams, (global_average<T, 16 / sizeof(T)>)) \
  TENON_KERNEL(global_average_##type, PoolParams, (global_average<T, 1>))

TENON_DIRECT_KERNELS(f16, __half)
TENON_DIRECT_KERNELS(bf16, __nv_bfloat16)
TENON_DIRECT_KERNELS(f32, float)
