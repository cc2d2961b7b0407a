// Instance and group normalisation of images whose channels lie last: in one kernel where a slice of an image's
// channels fits into a block's registers, else a kernel for the moments of chunks of pixels and one that puts them
// together and normalises.
//
// Moments are a mean and a sum of squares about it: first those of a thread, of so many vectors as it reads at once,
// then those of the block, about the block's mean. So no sum of squares is about a number that is far from the mean,
// and each sum has its order whatever the device does.
#pragma once

#include "ep/cuda/ops/norm/channels_last_params.h"
#include "ep/cuda/templates/kernel.cuh"
#include "ep/cuda/templates/lanes.cuh"

namespace tenon::cuda::device {

// A norm that nothing follows. Functions that do are text of the host (norm/lower_channels_last.cc).
struct NormAlone {
  static __device__ __forceinline__ float of(float v, float) { return v; }
};

// Where a block and its thread are.
struct ImageSlice {
  __device__ __forceinline__ explicit ImageSlice(const ChannelsLastNormParams& p, unsigned vector) {
    unsigned rest = blockIdx.x;
    chunk = split(rest, p.chunks);
    slice = split(rest, p.slices);
    image = rest;
    row = threadIdx.x;
    const unsigned column = split(row, p.vectors);
    in_slice = column * vector;
    channel = slice * (unsigned)p.vectors.size * vector + in_slice;
    first = chunk * p.chunk_pixels;
    const unsigned end = first + p.chunk_pixels;
    last = end < (unsigned)p.pixels ? end : (unsigned)p.pixels;
    at = (image * p.pixels + first + row) * (unsigned)p.channels + channel;
    mine = row < (unsigned)p.rows;
  }
  unsigned image, slice, chunk;
  unsigned row;                // the thread's pixel among those that the block reads at once
  unsigned in_slice, channel;  // its vector's first channel in the slice, in the image
  unsigned first, last;        // the chunk's pixels
  unsigned at;                 // the element where the thread begins
  bool mine;
};

// The vectors that a thread reads at once: kTurns pixels, `rows` apart.
template <typename T, int kTurns, int kVector>
struct ImageTile {
  Pack<T, kVector> held[kTurns];
  unsigned count = 0;

  // From the pixel `from` on; none from `last` on.
  __device__ __forceinline__ void read(const ChannelsLastNormParams& p, const T* x, unsigned at, unsigned from,
                                       unsigned last) {
    count = 0;
#pragma unroll
    for (int n = 0; n < kTurns; ++n) {
      if (from + n * p.rows >= last) continue;
      held[n] = *(const Pack<T, kVector>*)(x + at + n * p.rows * (unsigned)p.channels);
      count = n + 1;
    }
  }
};

// A number for each of the vector's channels, which is added before all else; zeros where there is none.
template <typename T, int kVector>
struct Addends {
  __device__ __forceinline__ Addends(const ChannelsLastNormParams& p, const T* from, const ImageSlice& here) {
#pragma unroll
    for (int j = 0; j < kVector; ++j) v[j] = 0;
    if (from == nullptr || !here.mine) return;
    const Pack<T, kVector> pack = *(const Pack<T, kVector>*)(from + here.image * p.addend_image + here.channel);
#pragma unroll
    for (int j = 0; j < kVector; ++j) v[j] = load(pack.v[j]);
  }
  float v[kVector];
};

// The moments of a thread: of each channel of its vector, or, where a vector lies within a group (kWhole), of all.
template <int kVector, bool kWhole>
struct ThreadMoments {
  static constexpr int kParts = kWhole ? 1 : kVector;
  float mean[kParts], squares[kParts], count = 0;

  __device__ __forceinline__ ThreadMoments() {
#pragma unroll
    for (int j = 0; j < kParts; ++j) mean[j] = squares[j] = 0;
  }

  template <typename T, int kTurns>
  __device__ __forceinline__ void add(const ImageTile<T, kTurns, kVector>& tile, const Addends<T, kVector>& addends) {
    if (tile.count == 0) return;
    const float read = (float)(tile.count * (kWhole ? kVector : 1)), all = count + read;
    float sum[kParts], about[kParts];
#pragma unroll
    for (int j = 0; j < kParts; ++j) sum[j] = about[j] = 0;
#pragma unroll
    for (int n = 0; n < kTurns; ++n) {
      if (n >= tile.count) continue;
#pragma unroll
      for (int j = 0; j < kVector; ++j) sum[kWhole ? 0 : j] += load(tile.held[n].v[j]) + addends.v[j];
    }
#pragma unroll
    for (int j = 0; j < kParts; ++j) sum[j] /= read;
#pragma unroll
    for (int n = 0; n < kTurns; ++n) {
      if (n >= tile.count) continue;
#pragma unroll
      for (int j = 0; j < kVector; ++j) {
        const float away = load(tile.held[n].v[j]) + addends.v[j] - sum[kWhole ? 0 : j];
        about[kWhole ? 0 : j] += away * away;
      }
    }
    const float weight = read / all;
#pragma unroll
    for (int j = 0; j < kParts; ++j) {
      const float apart = sum[j] - mean[j];
      mean[j] += apart * weight;
      squares[j] += about[j] + apart * apart * (count * weight);
    }
    count = all;
  }
};

// The moments of the block's groups, each of which kLanes neighbouring threads put together.
template <unsigned kThreads, int kVector, bool kWhole, int kLanes>
struct BlockMoments {
  static constexpr int kParts = kWhole ? 1 : kVector;
  static constexpr unsigned kMostGroups = kThreads / kLanes;
  float numbers[kThreads * kParts];  // of a thread, in the order of pixels, then channels
  float mean[kMostGroups], squares[kMostGroups];

  // The sum over a group of what each thread has of it. All threads come here; the group's lanes get it.
  __device__ __forceinline__ float group_sum(const ChannelsLastNormParams& p) const {
    const unsigned group = threadIdx.x / kLanes, lane = threadIdx.x % kLanes;
    const unsigned width = (unsigned)p.vectors.size * kParts;
    const unsigned each = kWhole ? (unsigned)p.group_channels.size / kVector : (unsigned)p.group_channels.size;
    float sum = 0;
    if (group < (unsigned)p.slice_groups) {
      // Lanes go through a pixel's numbers, then through those of the next one.
      unsigned row = lane / each, column = lane - row * each;
      const unsigned rows = kLanes / each, columns = kLanes - rows * each;
      while (row < (unsigned)p.rows) {
        sum += numbers[row * width + group * each + column];
        row += rows;
        column += columns;
        if (column >= each) column -= each, ++row;
      }
    }
    return lane_sum<kLanes>(sum);
  }

  // `pixels`: of the block. Afterwards all threads see `mean` and `squares`.
  __device__ __forceinline__ void join(const ChannelsLastNormParams& p, const ImageSlice& here,
                                       const ThreadMoments<kVector, kWhole>& of, unsigned pixels) {
    const unsigned group = threadIdx.x / kLanes;
    const bool writes = threadIdx.x % kLanes == 0 && group < (unsigned)p.slice_groups;
    float* const own = numbers + threadIdx.x * kParts;
    if (here.mine) {
#pragma unroll
      for (int j = 0; j < kParts; ++j) own[j] = of.mean[j] * of.count;
    }
    __syncthreads();
    const float sum = group_sum(p);
    if (writes) mean[group] = sum / ((float)pixels * (float)p.group_channels.size);
    __syncthreads();
    if (here.mine) {
#pragma unroll
      for (int j = 0; j < kParts; ++j) {
        const float apart = of.mean[j] - mean[quotient(here.in_slice + j, p.group_channels)];
        own[j] = of.squares[j] + apart * apart * of.count;
      }
    }
    __syncthreads();
    const float about = group_sum(p);
    if (writes) squares[group] = about;
    __syncthreads();
  }
};

// The normalisation of a vector: its channels' mean, factor and summand.
template <int kVector>
struct VectorNorm {
  float mean[kVector], factor[kVector], shift[kVector];

  template <typename S, typename B>
  __device__ __forceinline__ VectorNorm(const ChannelsLastNormParams& p, const ImageSlice& here, const S* scale,
                                        const B* bias) {
    const unsigned channel = here.mine ? here.channel : 0;
    if (p.scale_each_group != 0) {
#pragma unroll
      for (int j = 0; j < kVector; ++j) {
        const unsigned group = quotient(channel + j, p.group_channels);
        factor[j] = (float)load(scale[group]);
        shift[j] = (float)load(bias[group]);
      }
    } else {
      const Pack<S, kVector> scales = *(const Pack<S, kVector>*)(scale + channel);
      const Pack<B, kVector> shifts = *(const Pack<B, kVector>*)(bias + channel);
#pragma unroll
      for (int j = 0; j < kVector; ++j) {
        factor[j] = (float)load(scales.v[j]);
        shift[j] = (float)load(shifts.v[j]);
      }
    }
  }
  // From the moments of the slice's groups; the factors are those of the scale so far.
  __device__ __forceinline__ void set(const ChannelsLastNormParams& p, const ImageSlice& here, const float* means,
                                      const float* squares) {
#pragma unroll
    for (int j = 0; j < kVector; ++j) {
      const unsigned group = here.mine ? quotient(here.in_slice + j, p.group_channels) : 0;
      mean[j] = means[group];
      factor[j] *= 1 / sqrt_of(squares[group] * p.inverse_count + p.epsilon);
    }
  }
  template <typename Chain, typename T, typename O, int kTurns>
  __device__ __forceinline__ void write(const ChannelsLastNormParams& p, const ImageTile<T, kTurns, kVector>& tile,
                                        const Addends<T, kVector>& addends, const O* other, T* y, unsigned at) const {
#pragma unroll
    for (int n = 0; n < kTurns; ++n) {
      if (n >= tile.count) continue;
      const unsigned here = at + n * p.rows * (unsigned)p.channels;
      Pack<O, kVector> second = {};
      if (other != nullptr) second = *(const Pack<O, kVector>*)(other + here);
      Pack<T, kVector> out;
#pragma unroll
      for (int j = 0; j < kVector; ++j) {
        const float v = (load(tile.held[n].v[j]) + addends.v[j] - mean[j]) * factor[j] + shift[j];
        out.v[j] = store<T>(Chain::of(v, (float)load(second.v[j])));
      }
      *(Pack<T, kVector>*)(y + here) = out;
    }
  }
};

// One block has all pixels of a slice, and keeps them.
template <typename Chain, typename T, typename S, typename B, typename O, unsigned kThreads, int kTurns, int kVector,
          bool kWhole, int kLanes>
__global__ void __launch_bounds__(kThreads) norm_of_slices(ChannelsLastNormParams p, const T* x, const T* addend,
                                                           const S* scale, const B* bias, const O* other, T* y) {
  __shared__ BlockMoments<kThreads, kVector, kWhole, kLanes> block;
  begin_kernel();
  const ImageSlice here(p, kVector);
  ImageTile<T, kTurns, kVector> tile;
  if (here.mine) tile.read(p, x, here.at, here.row, here.last);
  const Addends<T, kVector> addends(p, addend, here);
  VectorNorm<kVector> norm(p, here, scale, bias);
  ThreadMoments<kVector, kWhole> moments;
  moments.add(tile, addends);
  block.join(p, here, moments, p.pixels);
  norm.set(p, here, block.mean, block.squares);
  norm.template write<Chain>(p, tile, addends, other, y, here.at);
}

// The moments of a chunk: of each of the image's groups and each chunk a mean and a sum of squares.
template <typename T, unsigned kThreads, int kTurns, int kVector, bool kWhole, int kLanes>
__global__ void __launch_bounds__(kThreads)
    moments_of_chunks(ChannelsLastNormParams p, const T* x, const T* addend, float* moments) {
  __shared__ BlockMoments<kThreads, kVector, kWhole, kLanes> block;
  begin_kernel();
  const ImageSlice here(p, kVector);
  const Addends<T, kVector> addends(p, addend, here);
  ThreadMoments<kVector, kWhole> own;
  if (here.mine) {
    const unsigned step = kTurns * p.rows;
    unsigned at = here.at;
    for (unsigned from = here.first + here.row; from < here.last; from += step) {
      ImageTile<T, kTurns, kVector> tile;
      tile.read(p, x, at, from, here.last);
      own.add(tile, addends);
      at += step * (unsigned)p.channels;
    }
  }
  block.join(p, here, own, here.last - here.first);
  if (threadIdx.x >= (unsigned)p.slice_groups) return;
  const unsigned group = here.image * p.groups + here.slice * p.slice_groups + threadIdx.x;
  Pack<float, 2> pair;
  pair.v[0] = block.mean[threadIdx.x];
  pair.v[1] = block.squares[threadIdx.x];
  *(Pack<float, 2>*)(moments + 2 * (group * (unsigned)p.chunks.size + here.chunk)) = pair;
}

// Puts the moments of chunks together, each block those of its slice, and normalises its own chunk.
template <typename Chain, typename T, typename S, typename B, typename O, unsigned kThreads, int kTurns, int kVector,
          int kLanes>
__global__ void __launch_bounds__(kThreads)
    norm_by_moments(ChannelsLastNormParams p, const T* x, const T* addend, const float* moments, const S* scale,
                    const B* bias, const O* other, T* y) {
  __shared__ float means[kThreads / kLanes], squares[kThreads / kLanes];
  begin_kernel();
  const ImageSlice here(p, kVector);
  const unsigned step = kTurns * p.rows;
  unsigned at = here.at, from = here.first + here.row;
  ImageTile<T, kTurns, kVector> tile;
  if (here.mine) tile.read(p, x, at, from, here.last);
  const Addends<T, kVector> addends(p, addend, here);
  VectorNorm<kVector> norm(p, here, scale, bias);
  const unsigned group = threadIdx.x / kLanes, lane = threadIdx.x % kLanes;
  const bool reads = group < (unsigned)p.slice_groups;
  const Pack<float, 2>* const parts =
      (const Pack<float, 2>*)moments + (here.image * p.groups + here.slice * p.slice_groups + group) * p.part_count;
  const float a_pixel = (float)p.group_channels.size;
  const auto elements = [&](unsigned part) {
    const unsigned begin = part * p.part_pixels, left = (unsigned)p.pixels - begin;
    return (float)(left < (unsigned)p.part_pixels ? left : (unsigned)p.part_pixels) * a_pixel;
  };
  float sum = 0, about = 0;
  if (reads)
    for (unsigned n = lane; n < (unsigned)p.part_count; n += kLanes) sum += parts[n].v[0] * elements(n);
  const float mean = lane_sum<kLanes>(sum) * p.inverse_count;
  if (reads)
    for (unsigned n = lane; n < (unsigned)p.part_count; n += kLanes) {
      const float apart = parts[n].v[0] - mean;
      about += parts[n].v[1] + apart * apart * elements(n);
    }
  about = lane_sum<kLanes>(about);
  if (reads && lane == 0) {
    means[group] = mean;
    squares[group] = about;
  }
  __syncthreads();
  norm.set(p, here, means, squares);
  if (!here.mine) return;
  for (;;) {
    norm.template write<Chain>(p, tile, addends, other, y, at);
    from += step;
    at += step * (unsigned)p.channels;
    if (from >= here.last) return;
    tile.read(p, x, at, from, here.last);
  }
}

}  // namespace tenon::cuda::device
