// Products and convolutions of bytes without tensor cores, and the packing before those that use them.
#pragma once

#include "ep/cuda/ops/conv/depthwise_strips.cuh"
#include "ep/cuda/ops/quantize/integer_maps_params.h"
#include "ep/cuda/templates/window.cuh"

namespace tenon::cuda::device {

template <typename A>
__device__ __forceinline__ int zero_of(const A* zero, int at = 0) {
  return zero == nullptr ? 0 : static_cast<int>(zero[at]);
}

// Turns an integer sum into an element of the result: a quantised number of type Y, or the sum itself where Y is int.
template <typename Y>
struct SumWriter {
  const float *a_scale, *b_scale, *y_scale;
  const Y* zero;
  const int* bias;  // may be null
  int scale_step;

  __device__ __forceinline__ Y operator()(int sum, long long channel) const {
    if (bias != nullptr) sum = static_cast<int>(static_cast<unsigned>(sum) + static_cast<unsigned>(bias[channel]));
    constexpr float kLowest = static_cast<Y>(-1) < 0 ? -128.0f : 0.0f;
    const float scaled = static_cast<float>(sum) * (a_scale[0] * b_scale[channel * scale_step] / y_scale[0]);
    return static_cast<Y>(static_cast<int>(
        fminf(fmaxf(rintf(scaled) + static_cast<float>(static_cast<int>(zero[0])), kLowest), kLowest + 255.0f)));
  }
};
template <>
struct SumWriter<int> {
  const float *a_scale, *b_scale, *y_scale;
  const int *zero, *bias;
  int scale_step;

  __device__ __forceinline__ int operator()(int sum, long long) const { return sum; }
};

// Zero points may be null.
template <typename A, typename B, bool kWide>
__global__ void __launch_bounds__(kMapThreads)
    small_integer_product(SmallProductParams p, const A* a, const B* b, const A* a_zero, const B* b_zero, int* y) {
  using Index = index_t<kWide>;
  Index flat, i[3];
  if (!map_index(p.map, flat, i)) return;
  const Index row = i[0] * static_cast<Index>(p.rows) + i[1];
  const int az = zero_of(a_zero, static_cast<int>(row) * p.a_zero_step);
  const int bz = zero_of(b_zero, static_cast<int>(i[2]) * p.b_zero_step);
  const Index depth = static_cast<Index>(p.depth), columns = static_cast<Index>(p.columns);
  const A* const line = a + row * depth;
  const B* const column = b + i[0] * static_cast<Index>(p.b_matrix) + i[2];
  unsigned sum = 0;
  for (Index k = 0; k < depth; ++k)
    sum += static_cast<unsigned>((static_cast<int>(line[k]) - az) * (static_cast<int>(column[k * columns]) - bz));
  y[flat] = static_cast<int>(sum);
}

template <bool kWide>
__global__ void __launch_bounds__(kMapThreads) pack_lines(PackLinesParams p, const unsigned char* x, unsigned char* y) {
  using Index = index_t<kWide>;
  Index flat, i[3];
  if (!map_index(p.map, flat, i)) return;
  Index rest = i[2];
  const Index within = split(rest, p.inner);
  y[flat] = i[2] < static_cast<Index>(p.depth)
                ? x[i[0] * static_cast<Index>(p.strides[0]) + i[1] * static_cast<Index>(p.strides[1]) +
                    rest * static_cast<Index>(p.strides[2]) + within * static_cast<Index>(p.strides[3])]
                : 0;
}

// Groups of several outputs and of whole fours of channels: a thread makes kEach outputs of a pixel, which read the
// same inputs, four products at a time. `b` are lines [output][tap][channel], `sums` their sums. Unsigned bytes are
// moved by 128, as are their zero points. Zero points and the scales of SumWriter<int> may be null. kChannels: those of
// a group, or 0 for what the parameters say.
template <typename A, typename B, typename Y, int kEach, int kChannels, bool kWide, int... kKernel>
__global__ void __launch_bounds__(kMapThreads)
    integer_groups(IntegerConvParams p, const A* a, const B* b, const int* sums, const A* a_zero, const B* b_zero,
                   const float* a_scale, const float* b_scale, const float* y_scale, const Y* y_zero, const int* bias,
                   Y* y) {
  using Index = index_t<kWide>;
  using Offset = offset_t<kWide>;
  constexpr int kAxes = sizeof...(kKernel);
  constexpr bool kMovesA = static_cast<A>(-1) > 0, kMovesB = static_cast<B>(-1) > 0;
  Index flat, i[kAxes + 2];
  if (!map_index(p.map, flat, i)) return;
  Offset o[kAxes];
#pragma unroll
  for (int d = 0; d < kAxes; ++d) o[d] = static_cast<Offset>(i[d + 2]);
  const SumWriter<Y> written{a_scale, b_scale, y_scale, y_zero, bias, p.sum.scale_step};
  const int az = zero_of(a_zero), channels = kChannels != 0 ? kChannels : static_cast<int>(p.group_channels);
  const Index line = i[1] * kEach, plane = static_cast<Index>(p.plane);
  const Index first = (i[0] * static_cast<Index>(p.channels) + quotient(line, p.group_outputs) * channels) * plane;
  int acc[kEach] = {}, total = 0;
  visit_taps<Kernel<kKernel...>, true>(p.window, o, Offset{0}, 0, [&](Offset offset, int tap, bool inside) {
    for (int c = 0; c < channels; c += 4) {
      unsigned v = 0;
#pragma unroll
      for (int n = 0; n < 4; ++n) {
        const int element = inside ? static_cast<int>(a[first + (c + n) * plane + offset]) : az;
        v |= static_cast<unsigned>(static_cast<unsigned char>(element)) << (8 * n);
      }
      if (kMovesA) v ^= 0x80808080u;
      total = __dp4a(static_cast<int>(v), 0x01010101, total);
#pragma unroll
      for (int n = 0; n < kEach; ++n) {
        unsigned u = *reinterpret_cast<const unsigned*>(b + (line + n) * static_cast<Index>(p.line) +
                                                        static_cast<Index>(tap * channels + c));
        if (kMovesB) u ^= 0x80808080u;
        acc[n] = __dp4a(static_cast<int>(v), static_cast<int>(u), acc[n]);
      }
    }
  });
  Index pixel = 0, pixels = 1;
#pragma unroll
  for (int d = 0; d < kAxes; ++d) {
    pixel = pixel * static_cast<Index>(p.out[d]) + i[d + 2];
    pixels *= static_cast<Index>(p.out[d]);
  }
#pragma unroll
  for (int n = 0; n < kEach; ++n) {
    const Index output = line + n;
    const int bz = zero_of(b_zero, static_cast<int>(output) * p.b_zero_step) - (kMovesB ? 128 : 0);
    const int moved = az - (kMovesA ? 128 : 0);
    const int weights = sums[output] - (kMovesB ? 128 * p.depth : 0);
    y[(i[0] * static_cast<Index>(p.outputs) + output) * pixels + pixel] =
        written(acc[n] - moved * weights - bz * total + p.depth * moved * bz, output);
  }
}

// A thread makes pixels of one output that lie in a row, which share the weights that it reads. Zero points and the
// scales of SumWriter<int> may be null.
template <typename A, typename B, typename Y, int kPixels, bool kWide, int... kKernel>
__global__ void __launch_bounds__(kMapThreads)
    integer_conv(IntegerConvParams p, const A* a, const B* b, const A* a_zero, const B* b_zero, const float* a_scale,
                 const float* b_scale, const float* y_scale, const Y* y_zero, const int* bias, Y* y) {
  using Index = index_t<kWide>;
  using Offset = offset_t<kWide>;
  constexpr int kAxes = sizeof...(kKernel);
  Index flat, i[kAxes + 2];
  if (!map_index(p.map, flat, i)) return;
  // The window along the axes before the last one; along the last one each pixel has its own.
  Offset o[kAxes];
#pragma unroll
  for (int d = 0; d < kAxes; ++d) o[d] = static_cast<Offset>(i[d + 2]);
  const SumWriter<Y> written{a_scale, b_scale, y_scale, y_zero, bias, p.sum.scale_step};
  const int az = zero_of(a_zero), bz = zero_of(b_zero, static_cast<int>(i[1]) * p.b_zero_step);
  const Index channels = static_cast<Index>(p.group_channels), plane = static_cast<Index>(p.plane);
  const Index first = i[0] * static_cast<Index>(p.channels) + quotient(i[1], p.group_outputs) * channels;
  const WindowParams::Axis& last = p.window.axes[kAxes - 1];
  const Offset width = static_cast<Offset>(last.in), left = o[kAxes - 1] * (kPixels * last.stride) - last.pad_begin;
  using Window = Kernel<kKernel...>;
  const int extent = Window::template extent<kAxes - 1>(p.window);
  const Index taps = static_cast<Index>(p.taps);
  unsigned sum[kPixels] = {};
  visit_taps<Window, false, kAxes - 1>(p.window, o, Offset{0}, Index{0}, [&](Offset row, Index row_tap, bool) {
    for (int k = 0; k < extent; ++k) {
      const Index tap = row_tap * static_cast<Index>(extent) + k;
      const Offset column = left + static_cast<Offset>(k) * last.dilation;
      for (Index c = 0; c < channels; ++c) {
        const int weight = static_cast<int>(b[(i[1] * channels + c) * taps + tap]) - bz;
        const A* const line = a + ((first + c) * plane + static_cast<Index>(row * width));
#pragma unroll
        for (int j = 0; j < kPixels; ++j) {
          const Offset at = column + j * last.stride;
          if (at >= 0 && at < width) sum[j] += static_cast<unsigned>((static_cast<int>(line[at]) - az) * weight);
        }
      }
    }
  });
  Index pixel = i[0] * static_cast<Index>(p.outputs) + i[1];
#pragma unroll
  for (int d = 0; d < kAxes - 1; ++d) pixel = pixel * static_cast<Index>(p.out[d]) + i[d + 2];
  const Index wide = static_cast<Index>(p.out[kAxes - 1]);
#pragma unroll
  for (int j = 0; j < kPixels; ++j) {
    const Index at = i[kAxes + 1] * kPixels + j;
    if (at < wide) y[pixel * wide + at] = written(static_cast<int>(sum[j]), i[1]);
  }
}

// Zero points and the scales of SumWriter<int> may be null.
template <typename A, typename B, typename Y, int kRows, int kKernelH, int kKernelW, int kStrideH, int kDilationH,
          bool kWide>
__global__ void __launch_bounds__(kMapThreads)
    integer_depthwise(IntegerDepthwiseParams p, const A* a, const B* b, const A* a_zero, const B* b_zero,
                      const float* a_scale, const float* b_scale, const float* y_scale, const Y* y_zero,
                      const int* bias, Y* y) {
  using Index = index_t<kWide>;
  Index flat, i[4];
  if (!map_index(p.conv.map, flat, i)) return;
  const SumWriter<Y> written{a_scale, b_scale, y_scale, y_zero, bias, p.sum.scale_step};
  const int az = zero_of(a_zero), bz = zero_of(b_zero, static_cast<int>(i[1]) * p.b_zero_step);
  depthwise_strip<int, StripShape<kRows, kKernelH, kKernelW, kStrideH, kDilationH>, kWide>(
      p.conv, i, [&](Index at) { return static_cast<int>(b[at]) - bz; },
      [&](Index at) { return static_cast<int>(a[at]) - az; }, [&](Index at, int sum) { y[at] = written(sum, i[1]); });
}

// kVectors: x has channels last, in whole vectors of 16, and a thread copies one. Outside of the image lie zero points;
// `zero` may be null.
template <int kAxes, bool kVectors, bool kWide>
__global__ void __launch_bounds__(kMapThreads)
    byte_windows(ByteWindowsParams p, const unsigned char* x, const unsigned char* zero, unsigned char* y) {
  using Index = index_t<kWide>;
  using Offset = offset_t<kWide>;
  using Vector = Pack<unsigned char, 16>;
  Index flat, i[kAxes + 2];
  if (!map_index(p.map, flat, i)) return;
  const unsigned char nothing = zero != nullptr ? zero[0] : 0;
  const Index image = i[0] * static_cast<Index>(p.image_stride);
  // Splits the element k of a row into its tap and channel; true where that lies inside of x.
  const auto find = [&](Index k, Offset& offset, Index& channel) {
    channel = split(k, p.channels);
    offset = 0;
    bool inside = true;
#pragma unroll
    for (int d = kAxes - 1; d >= 0; --d) {
      const WindowParams::Axis& axis = p.window.axes[d];
      const Offset at = static_cast<Offset>(i[d + 1]) * axis.stride - axis.pad_begin +
                        static_cast<Offset>(split(k, p.taps[d])) * axis.dilation;
      inside = inside && at >= 0 && at < static_cast<Offset>(axis.in);
      offset += at * static_cast<Offset>(p.strides[d]);
    }
    return inside;
  };
  Vector out;
  Offset offset;
  Index channel;
  if constexpr (kVectors) {
    if (find(i[kAxes + 1], offset, channel)) {
      out = *reinterpret_cast<const Vector*>(x + image + offset + channel * 16);
    } else {
#pragma unroll
      for (int j = 0; j < 16; ++j) out.v[j] = nothing;
    }
  } else {
    for (int j = 0; j < 16; ++j) {
      const Index k = i[kAxes + 1] * 16 + j;
      out.v[j] = 0;
      if (k >= static_cast<Index>(p.depth)) continue;
      out.v[j] =
          find(k, offset, channel) ? x[image + channel * static_cast<Index>(p.channel_stride) + offset] : nothing;
    }
  }
  *reinterpret_cast<Vector*>(y + flat * 16) = out;
}

}  // namespace tenon::cuda::device
