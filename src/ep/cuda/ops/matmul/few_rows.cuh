// Products of a few rows with matrices of weights [columns][depth], which take as long as reading the weights does: a
// warp makes neighbouring columns of all rows, its lanes share the depth in chunks of 8 elements. Weights are loaded
// before the kernel ahead has ended, so that its end and the way to memory overlap.
//
// In the same kernel: the division of each row by the root of its mean square before, the scale of each element there,
// up to three matrices beside each other, or act(x w0) * (x w1); and behind it bias, residual and activation.
#pragma once

#include "ep/cuda/ops/matmul/few_rows_params.h"
#include "ep/cuda/templates/kernel.cuh"
#include "ep/cuda/templates/lanes.cuh"

namespace tenon::cuda::device {

// Eight neighbouring elements in the words that they are loaded in. Elements of 16 bits are put together and taken
// apart again by instructions that wait for the load, where they are elements of a struct.
template <typename T>
using Words = Pack<unsigned, 2 * (int)sizeof(T)>;
template <typename T>
__device__ __forceinline__ float number_of(const Words<T>& words, int i) {
  if constexpr (sizeof(T) == 4) {
    return __uint_as_float(words.v[i]);
  } else {
    return (float)load(T{(unsigned short)(words.v[i / 2] >> i % 2 * 16)});
  }
}

// How eight neighbouring weights lie in memory: what is loaded, and the numbers that it stands for.
template <typename T>
struct PlainWeights {
  static constexpr bool kPlain = true;
  using Element = T;
  using Raw = Words<T>;
  static __device__ __forceinline__ void load(const FewRowsParams& p, const Element* w, const T*, const unsigned char*,
                                              long long column, int chunk, Raw& raw) {
    raw = *reinterpret_cast<const Raw*>(w + column * p.depth + chunk * 8);
  }
  static __device__ __forceinline__ void numbers(const Raw& raw, float (&w)[8]) {
#pragma unroll
    for (int i = 0; i < 8; ++i) w[i] = number_of<T>(raw, i);
  }
};

// (q - zero) * scale, with a scale for each block; q has 4 or 8 bits, the first in the lowest ones.
template <typename T, int kBits>
struct BlockedWeights {
  static constexpr bool kPlain = false;
  using Element = unsigned char;
  struct Raw {
    Pack<unsigned, kBits / 4> bits;
    T scale;
    unsigned zero;
  };
  static __device__ __forceinline__ void load(const FewRowsParams& p, const Element* w, const T* scales,
                                              const unsigned char* zeros, long long column, int chunk, Raw& raw) {
    const int block = chunk >> p.block_shift;
    raw.bits = *reinterpret_cast<const Pack<unsigned, kBits / 4>*>(w + column * p.column_bytes + chunk * kBits);
    raw.scale = scales[column * p.blocks + block];
    raw.zero = 1u << (kBits - 1);
    if (zeros != nullptr) {
      raw.zero = zeros[column * p.zero_bytes + block * kBits / 8];
      if (kBits == 4) raw.zero = raw.zero >> block % 2 * 4 & 15;
    }
  }
  static __device__ __forceinline__ void numbers(const Raw& raw, float (&w)[8]) {
    const float scale = (float)::tenon::cuda::device::load(raw.scale);
    // 2^23 + q as bits: an integer becomes a number without a conversion, of which a processor makes few.
    const float base = __uint_as_float(0x4b000000u | raw.zero);
#pragma unroll
    for (int i = 0; i < 8; ++i) {
      const unsigned q = raw.bits.v[i * kBits / 32] >> i * kBits % 32 & ((1u << kBits) - 1);
      w[i] = (__uint_as_float(0x4b000000u | q) - base) * scale;
    }
  }
};

// The kColumns columns of one matrix that a warp makes.
template <typename T, typename Weights, int kColumns>
struct ColumnsOf {
  const typename Weights::Element* w;
  const T* scales;
  const unsigned char* zeros;
  long long first;
};

// `g`: null, or a factor of each element of x, whose rows are then divided by the root of their mean square.
template <typename T, typename Weights, int kRows, int kColumns, int kChunks, bool kNorm, bool kGated,
          Activation kActivation>
__global__ void __launch_bounds__(kRowProductThreads)
    few_rows(FewRowsParams p, const T* x, const float* g, const T* r, const typename Weights::Element* w0, const T* s0,
             const unsigned char* z0, const float* b0, const typename Weights::Element* w1, const T* s1,
             const unsigned char* z1, const float* b1, const typename Weights::Element* w2, const T* s2,
             const unsigned char* z2, const float* b2, T* y0, T* y1, T* y2) {
  using Raw = typename Weights::Raw;
  constexpr int kMatrices = kGated ? 2 : 1;
  const int lane = threadIdx.x % 32;
  const long long group = (long long)blockIdx.x * (kRowProductThreads / 32) + threadIdx.x / 32;
  long long column = group * kColumns;
  // Which of the matrices beside each other; a gated product has both of its own at the same columns.
  T* y = y0;
  const float* bias = b0;
  int columns = p.columns[0];
  ColumnsOf<T, Weights, kColumns> of[kMatrices];
  of[0] = {w0, s0, z0, column};
  if constexpr (kGated) {
    of[1] = {w1, s1, z1, column};
  } else {
    if (column >= p.columns[0]) {
      column -= p.columns[0];
      of[0] = {w1, s1, z1, column};
      y = y1, bias = b1, columns = p.columns[1];
      if (column >= p.columns[1]) {
        column -= p.columns[1];
        of[0] = {w2, s2, z2, column};
        y = y2, bias = b2, columns = p.columns[2];
      }
    }
  }
  const bool mine = column < columns;
  const int chunks = p.depth / 8;
  // Each result is a lane's, so that all are stored at once, and what is added to them comes early.
  const int my_n = lane / kRows, my_row = lane % kRows;
  const bool stores = mine && my_n < kColumns && column + my_n < columns && my_row < p.rows;
  const long long at = (long long)my_row * columns + column + my_n;
  let_next_kernel_start();
  Raw raw[kMatrices][kColumns][kChunks];
  const auto load_weights = [&](int from) {
#pragma unroll
    for (int c = 0; c < kChunks; ++c)
#pragma unroll
      for (int m = 0; m < kMatrices; ++m)
#pragma unroll
        for (int n = 0; n < kColumns; ++n) {
          const int chunk = from + c * 32;
          raw[m][n][c] = Raw{};
          if (mine && chunk < chunks && column + n < columns)
            Weights::load(p, of[m].w, of[m].scales, of[m].zeros, of[m].first + n, chunk, raw[m][n][c]);
        }
  };
  // The factors of x's elements are constants too.
  Pack<float, 4> factors[kNorm ? kChunks : 1][2];
  const auto load_factors = [&](int from) {
    if constexpr (kNorm) {
#pragma unroll
      for (int c = 0; c < kChunks; ++c)
#pragma unroll
        for (int half = 0; half < 2; ++half) {
          factors[c][half] = Pack<float, 4>{};
          if (from + c * 32 < chunks)
            factors[c][half] = *reinterpret_cast<const Pack<float, 4>*>(g + (from + c * 32) * 8 + half * 4);
        }
    }
  };
  load_weights(lane);
  load_factors(lane);
  float added = 0, added_to_gate = 0;
  if (stores && bias != nullptr) added = bias[column + my_n];
  if (kGated && stores && b1 != nullptr) added_to_gate = b1[column + my_n];
  wait_for_previous_kernel();
  T residual_element{};  // becomes a number when all loads are on their way
  if (stores && r != nullptr) residual_element = r[at];
  float sums[kMatrices][kColumns][kRows] = {}, squares[kRows] = {};
  // As many rows' chunks at once as registers have room for.
  constexpr int kChunksAtOnce = kRows * kChunks <= 8 ? kChunks : 1;
  for (int from = lane; from - lane < chunks; from += 32 * kChunks) {
    if (from != lane) {
      load_weights(from);
      load_factors(from);
    }
#pragma unroll
    for (int first = 0; first < kChunks; first += kChunksAtOnce) {
      Words<T> packs[kChunksAtOnce][kRows];
#pragma unroll
      for (int c = 0; c < kChunksAtOnce; ++c)
#pragma unroll
        for (int row = 0; row < kRows; ++row) {
          const int chunk = from + (first + c) * 32;
          packs[c][row] = Words<T>{};
          if (chunk < chunks && row < p.rows)
            packs[c][row] = *reinterpret_cast<const Words<T>*>(x + (long long)row * p.x_row + chunk * 8);
        }
#pragma unroll
      for (int c = 0; c < kChunksAtOnce; ++c) {
        float values[kRows][8];
#pragma unroll
        for (int row = 0; row < kRows; ++row)
#pragma unroll
          for (int i = 0; i < 8; ++i) {
            values[row][i] = number_of<T>(packs[c][row], i);
            if constexpr (kNorm) {
              squares[row] += values[row][i] * values[row][i];
              values[row][i] *= factors[first + c][i / 4].v[i % 4];
            }
          }
#pragma unroll
        for (int m = 0; m < kMatrices; ++m)
#pragma unroll
          for (int n = 0; n < kColumns; ++n) {
            float w[8];
            Weights::numbers(raw[m][n][first + c], w);
#pragma unroll
            for (int row = 0; row < kRows; ++row)
#pragma unroll
              for (int i = 0; i < 8; ++i) sums[m][n][row] += values[row][i] * w[i];
          }
      }
    }
  }
  // All sums over the lanes at once, so that none waits for another one.
  constexpr int kSums = kMatrices * kColumns * kRows;
  float totals[kSums + (kNorm ? kRows : 0)];
#pragma unroll
  for (int m = 0; m < kMatrices; ++m)
#pragma unroll
    for (int n = 0; n < kColumns; ++n)
#pragma unroll
      for (int row = 0; row < kRows; ++row) totals[(m * kColumns + n) * kRows + row] = sums[m][n][row];
#pragma unroll
  for (int row = 0; row < kRows; ++row)
    if constexpr (kNorm) totals[kSums + row] = squares[row];
  lane_sums<32>(totals);
  float v = 0, gate = 0, square = 0;
#pragma unroll
  for (int row = 0; row < kRows; ++row) {
    if (kNorm && row == my_row) square = totals[kNorm ? kSums + row : 0];
#pragma unroll
    for (int n = 0; n < kColumns; ++n) {
      if (n != my_n || row != my_row) continue;
      v = totals[n * kRows + row];
      if constexpr (kGated) gate = totals[(kColumns + n) * kRows + row];
    }
  }
  if (!stores) return;
  const float residual = (float)load(residual_element);
  float factor = p.scale;
  if constexpr (kNorm) factor *= rsqrt_of(square * p.inverse_depth + p.epsilon);
  v = v * factor + added;
  gate *= factor;
  if constexpr (kGated) {
    v = activate<kActivation>(v, p.act_alpha, p.act_beta) * (gate + added_to_gate) + residual;
  } else {
    if (!p.residual_after) v += residual;
    v = activate<kActivation>(v, p.act_alpha, p.act_beta);
    if (p.residual_after) v += residual;
  }
  y[at] = store<T>(v);
}

// Weights of few bits as numbers [columns][depth]: a thread makes a chunk of eight.
template <typename T, int kBits>
__global__ void __launch_bounds__(kMapThreads)
    widen_blocks(FewRowsParams p, const unsigned char* w, const T* scales, const unsigned char* zeros, T* y) {
  using Weights = BlockedWeights<T, kBits>;
  const long long at = (long long)blockIdx.x * blockDim.x + threadIdx.x;
  const int chunks = p.depth / 8;
  const long long column = at / chunks;
  const int chunk = (int)(at - column * chunks);
  begin_kernel();
  if (column >= p.columns[0]) return;
  typename Weights::Raw raw;
  Weights::load(p, w, scales, zeros, column, chunk, raw);
  float numbers[8];
  Weights::numbers(raw, numbers);
  Pack<T, 8> pack;
#pragma unroll
  for (int i = 0; i < 8; ++i) pack.v[i] = store<T>(numbers[i]);
  *reinterpret_cast<Pack<T, 8>*>(y + column * p.depth + chunk * 8) = pack;
}

}  // namespace tenon::cuda::device
