// Convolutions without tensor cores: depthwise ones, a thread for some channels of one pixel, and a plain one for
// whatever else there is; pooling. Channels last.
#include "ep/cuda/compute/kernel_params.h"
#include "ep/cuda/ops/common.cuh"

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
    const int channel = at % p.channels, pixel = at / p.channels;  // pixels are fewer than 2^31
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

// Where cuBLASLt is not there, or has no algorithm: each element by a thread, sums in float32.
template <typename T>
__device__ void product_plain(const ProductParams& p) {
  wait_for_previous_kernel();
  let_next_kernel_start();
  const int64_t count = p.batch * p.rows * p.columns;
  for (int64_t at = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x; at < count;
       at += static_cast<int64_t>(gridDim.x) * blockDim.x) {
    const int64_t column = at % p.columns, row = at / p.columns % p.rows, batch = at / (p.columns * p.rows);
    const T* const x = static_cast<const T*>(p.x) + batch * p.x_stride + row * p.depth;
    const T* const w =
        static_cast<const T*>(p.w) + batch * p.w_stride + (p.transposed_w != 0 ? column * p.depth : column);
    const int64_t step = p.transposed_w != 0 ? 1 : p.columns;
    float sum = 0;
    for (int64_t k = 0; k < p.depth; ++k) sum = fmaf(to_float(x[k]), to_float(w[k * step]), sum);
    static_cast<T*>(p.y)[at] = from_float<T>(sum * p.scale);
  }
}

// The sum's end: scale, bias, residual, activation, and out.
template <typename T>
__device__ __forceinline__ void finish_depthwise(const ConvParams& p, int64_t pixel, int channel,
                                                 const float (&sum)[Vec<T>::kCount],
                                                 const float (&bias)[Vec<T>::kCount]) {
  constexpr int kVector = Vec<T>::kCount;
  const int64_t at = pixel * p.channels + channel;
  Vec<T> residual{}, result;
  if (p.residual != nullptr) residual = *reinterpret_cast<const Vec<T>*>(static_cast<const T*>(p.residual) + at);
#pragma unroll
  for (int j = 0; j < kVector; ++j) {
    float z = sum[j] * p.scale + bias[j];
    const float r = to_float(residual.v[j]);
    if (!p.residual_after) z += r;
    z = activate(z, p.activation, p.alpha, p.beta);
    if (p.residual_after) z += r;
    result.v[j] = from_float<T>(z);
  }
  *reinterpret_cast<Vec<T>*>(static_cast<T*>(p.y) + at) = result;
}

template <typename T>
__device__ __forceinline__ void load_bias(const ConvParams& p, int channel, float (&bias)[Vec<T>::kCount]) {
#pragma unroll
  for (int j = 0; j < Vec<T>::kCount; ++j) bias[j] = p.bias != nullptr ? p.bias[channel + j] : 0.0f;
}

// Weights are [kernel row][kernel column][channel] here; channels a multiple of the vector.
template <typename T>
__device__ void conv_depthwise(const ConvParams& p) {
  constexpr int kVector = Vec<T>::kCount;
  const int vectors = p.channels / kVector;
  const int64_t i = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  wait_for_previous_kernel();
  let_next_kernel_start();
  if (i >= static_cast<int64_t>(p.pixels) * vectors) return;
  const int pixel = i / vectors, channel = (i - static_cast<int64_t>(pixel) * vectors) * kVector;
  const int ow = pixel % p.out_w, oh = pixel / p.out_w % p.out_h, image = pixel / (p.out_w * p.out_h);
  const int top = oh * p.stride_h - p.pad_h, left = ow * p.stride_w - p.pad_w;
  float sum[kVector] = {}, bias[kVector];
  load_bias<T>(p, channel, bias);
  for (int r = 0; r < p.kernel_h; ++r) {
    const int h = top + r * p.dilation_h;
    if (h < 0 || h >= p.in_h) continue;
    const T* const row =
        static_cast<const T*>(p.x) + (static_cast<int64_t>(image) * p.in_h + h) * p.in_w * p.in_c + channel;
    for (int s = 0; s < p.kernel_w; ++s) {
      const int v = left + s * p.dilation_w;
      if (v < 0 || v >= p.in_w) continue;
      const Vec<T> x = *reinterpret_cast<const Vec<T>*>(row + v * p.in_c);
      const Vec<T> w =
          *reinterpret_cast<const Vec<T>*>(static_cast<const T*>(p.w) + (r * p.kernel_w + s) * p.channels + channel);
#pragma unroll
      for (int j = 0; j < kVector; ++j) sum[j] += to_float(x.v[j]) * to_float(w.v[j]);
    }
  }
  finish_depthwise<T>(p, pixel, channel, sum, bias);
}

// A kernel of kSize x kSize without dilation. A small image is all latency, so no load waits for another one: weights
// come before the kernel ahead has ended, and all rows of pixels at once, those outside as zeros.
template <typename T, int kSize, int kStride>
__device__ void conv_depthwise_square(const ConvParams& p) {
  constexpr int kVector = Vec<T>::kCount;
  const unsigned vectors = p.channels / kVector;
  const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;  // fewer than 2^31: DepthwiseConvOp sees to that
  const bool mine = i < static_cast<unsigned>(p.pixels) * vectors;
  const unsigned pixel = mine ? i / vectors : 0, channel = mine ? (i - pixel * vectors) * kVector : 0;
  const unsigned row = pixel / p.out_w, ow = pixel - row * p.out_w, image = row / p.out_h, oh = row - image * p.out_h;
  const int top = static_cast<int>(oh) * kStride - p.pad_h, left = static_cast<int>(ow) * kStride - p.pad_w;
  // 25 vectors of weights and as many of pixels would not fit into the registers.
  constexpr int kKept = kSize <= 3 ? kSize : 1;
  if (!p.constant_weights) wait_for_previous_kernel();
  Vec<T> w[kKept][kSize];
  const T* const weights = static_cast<const T*>(p.w) + channel;
  float sum[kVector] = {}, bias[kVector];
  load_bias<T>(p, channel, bias);
  if constexpr (kKept == kSize) {
#pragma unroll
    for (int r = 0; r < kSize; ++r)
#pragma unroll
      for (int s = 0; s < kSize; ++s)
        w[r][s] = *reinterpret_cast<const Vec<T>*>(weights + (r * kSize + s) * p.channels);
  }
  if (p.constant_weights) wait_for_previous_kernel();
  let_next_kernel_start();
  if (!mine) return;
  const T* const base = static_cast<const T*>(p.x) + static_cast<int64_t>(image) * p.in_h * p.in_w * p.in_c + channel;
  Vec<T> x[kKept][kSize];
  const auto load_row = [&](int r, Vec<T>(&to)[kSize]) {
    const int h = top + r;
#pragma unroll
    for (int s = 0; s < kSize; ++s) {
      const int v = left + s;
      const bool inside = h >= 0 && h < p.in_h && v >= 0 && v < p.in_w;
      to[s] = Vec<T>{};
      if (inside) to[s] = *reinterpret_cast<const Vec<T>*>(base + (h * p.in_w + v) * static_cast<int64_t>(p.in_c));
    }
  };
  if constexpr (kKept == kSize) {
#pragma unroll
    for (int r = 0; r < kSize; ++r) load_row(r, x[r]);
  }
#pragma unroll
  for (int r = 0; r < kSize; ++r) {
    constexpr bool kLoaded = kKept == kSize;
    const int at = kLoaded ? r : 0;
    if constexpr (!kLoaded) {
      load_row(r, x[0]);
#pragma unroll
      for (int s = 0; s < kSize; ++s)
        w[0][s] = *reinterpret_cast<const Vec<T>*>(weights + (r * kSize + s) * p.channels);
    }
#pragma unroll
    for (int s = 0; s < kSize; ++s)
#pragma unroll
      for (int j = 0; j < kVector; ++j) sum[j] += to_float(x[at][s].v[j]) * to_float(w[at][s].v[j]);
  }
  finish_depthwise<T>(p, pixel, channel, sum, bias);
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

// The mean of all pixels: a block has blockDim.x vectors of channels of an image, and its rows of threads share the
// pixels: as many as there are channels to share them, 256 threads in all.
template <typename T, int kVector>
__device__ void global_average(const PoolParams& p) {
  struct alignas(kVector * sizeof(T)) Pack {
    T v[kVector];
  };
  constexpr int kThreads = 256;
  __shared__ float sums[kThreads][kVector + 1];
  wait_for_previous_kernel();
  let_next_kernel_start();
  const int lane = threadIdx.x, part = threadIdx.y, parts = blockDim.y;
  const int vectors = p.channels / kVector, vector = blockIdx.x * blockDim.x + lane;
  const int area = p.in_h * p.in_w;
  const int64_t images = p.count / vectors;
  // A grid has fewer rows than there may be images.
  for (int64_t image = blockIdx.y; image < images; image += gridDim.y) {
    float sum[kVector] = {};
    if (vector < vectors) {
      const T* const x = static_cast<const T*>(p.x) + image * area * p.channels + vector * kVector;
      // Eight loads at once: one after the other they would be most of the time.
      for (int i = part; i < area; i += 8 * parts) {
        Pack packs[8];
#pragma unroll
        for (int k = 0; k < 8; ++k) {
          packs[k] = Pack{};
          if (i + k * parts < area)
            packs[k] = *reinterpret_cast<const Pack*>(x + static_cast<int64_t>(i + k * parts) * p.channels);
        }
#pragma unroll
        for (int k = 0; k < 8; ++k)
#pragma unroll
          for (int j = 0; j < kVector; ++j) sum[j] += to_float(packs[k].v[j]);
      }
    }
    __syncthreads();  // the sums of the image before this one have been read
    for (int j = 0; j < kVector; ++j) sums[part * blockDim.x + lane][j] = sum[j];
    // Halves of the parts are added to the others, until one is left.
    for (int half = parts / 2; half > 0; half /= 2) {
      __syncthreads();
      if (part < half)
        for (int j = 0; j < kVector; ++j)
          sums[part * blockDim.x + lane][j] += sums[(part + half) * blockDim.x + lane][j];
    }
    if (part != 0 || vector >= vectors) continue;
    Pack result;
    for (int j = 0; j < kVector; ++j) result.v[j] = from_float<T>(sums[lane][j] / static_cast<float>(area));
    *reinterpret_cast<Pack*>(static_cast<T*>(p.y) + image * p.channels + vector * kVector) = result;
  }
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
  TENON_KERNEL(product_plain_##type, ProductParams, product_plain<T>)                         \
  TENON_KERNEL(conv_depthwise_##type, ConvParams, conv_depthwise<T>)                          \
  TENON_KERNEL(conv_depthwise3_##type, ConvParams, (conv_depthwise_square<T, 3, 1>))          \
  TENON_KERNEL(conv_depthwise3s2_##type, ConvParams, (conv_depthwise_square<T, 3, 2>))        \
  TENON_KERNEL(pool_vector_##type, PoolParams, (pool<T, 16 / sizeof(T)>))                     \
  TENON_KERNEL(pool_##type, PoolParams, (pool<T, 1>))                                         \
  TENON_KERNEL(global_average_vector_##type, PoolParams, (global_average<T, 16 / sizeof(T)>)) \
  TENON_KERNEL(global_average_##type, PoolParams, (global_average<T, 1>))

TENON_DIRECT_KERNELS(f16, __half)
TENON_DIRECT_KERNELS(bf16, __nv_bfloat16)
TENON_DIRECT_KERNELS(f32, float)
