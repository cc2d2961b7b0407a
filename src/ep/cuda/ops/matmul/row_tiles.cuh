// Products of 5 to 16 rows of 16-bit floats with matrices of weights [columns][depth], by the tensor cores, which take
// as long as reading the weights does. The weights are the 16 rows of a tile and the rows of x its 8 columns: so a lane
// reads 8 neighbouring elements of both, and which depth they stand for is the same for both. A block makes 8 or 16
// columns of all rows; its warps share the depth, and add their sums through shared memory.
//
// Norm, gate, bias, activation and residual are as in few_rows.cuh.
#pragma once

#include "ep/cuda/ops/matmul/few_rows.cuh"
#include "ep/cuda/ops/matmul/few_rows_params.h"
#include "ep/cuda/templates/kernel.cuh"
#include "ep/cuda/templates/lanes.cuh"
#include "ep/cuda/templates/tiles.cuh"

namespace tenon::cuda::device {

template <typename T>
__device__ __forceinline__ unsigned pair_of(float low, float high) {
  return store<T>(low).bits | (unsigned)store<T>(high).bits << 16;
}

// Eight weights as four pairs; times the factors of their depths where kNorm. A product of a weight and a factor is
// rounded to 16 bits, as the normalised row would be: x times its factor may be beyond what 16 bits hold.
template <typename T, typename Weights, bool kNorm>
__device__ __forceinline__ void pairs_of(const typename Weights::Raw& raw, const Pack<float, 4> (&factors)[2],
                                         unsigned (&pairs)[4]) {
  if constexpr (Weights::kPlain && !kNorm) {
#pragma unroll
    for (int i = 0; i < 4; ++i) pairs[i] = raw.v[i];
    return;
  }
  float w[8];
  Weights::numbers(raw, w);
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    const float low = kNorm ? w[2 * i] * factors[i / 2].v[i % 2 * 2] : w[2 * i];
    const float high = kNorm ? w[2 * i + 1] * factors[i / 2].v[i % 2 * 2 + 1] : w[2 * i + 1];
    pairs[i] = pair_of<T>(low, high);
  }
}

// kHalves: of 8 columns; kRowTiles: of 8 rows; kSteps: of 32 elements of the depth, which a warp loads at once.
template <typename T, typename Weights, int kHalves, int kRowTiles, int kSteps, bool kNorm, bool kGated,
          Activation kActivation>
__global__ void __launch_bounds__(kRowTileThreads, 2)  // 2: else the compiler asks for x in turns, to save registers
    row_tiles(FewRowsParams p, const T* x, const float* g, const T* r, const typename Weights::Element* w0, const T* s0,
              const unsigned char* z0, const float* b0, const typename Weights::Element* w1, const T* s1,
              const unsigned char* z1, const float* b1, const typename Weights::Element* w2, const T* s2,
              const unsigned char* z2, const float* b2, T* y0, T* y1, T* y2) {
  using Raw = typename Weights::Raw;
  constexpr int kMatrices = kGated ? 2 : 1, kWarps = kRowTileThreads / 32;
  constexpr int kTileColumns = kHalves * 8, kTileRows = kRowTiles * 8, kPadded = kTileColumns + 1;
  __shared__ float parts[kMatrices][kWarps][kTileRows][kPadded];
  __shared__ float squares_of[kWarps][kTileRows];
  const int thread = threadIdx.x, lane = thread % 32, warp = thread / 32, from_8 = lane / 4, quarter = lane % 4;
  // Which of the matrices beside each other; a gated product has both of its own at the same columns.
  long long column = (long long)blockIdx.x * kTileColumns;
  T* y = y0;
  const float* bias = b0;
  int columns = p.columns[0];
  ColumnsOf<T, Weights, kTileColumns> of[kMatrices];
  of[0] = {w0, s0, z0, column};
  if constexpr (kGated) {
    of[1] = {w1, s1, z1, column};
  } else {
    const auto padded = [](int n) { return (n + kTileColumns - 1) / kTileColumns * kTileColumns; };
    if (column >= padded(p.columns[0])) {
      column -= padded(p.columns[0]);
      of[0] = {w1, s1, z1, column};
      y = y1, bias = b1, columns = p.columns[1];
      if (column >= padded(p.columns[1])) {
        column -= padded(p.columns[1]);
        of[0] = {w2, s2, z2, column};
        y = y2, bias = b2, columns = p.columns[2];
      }
    }
  }
  const int chunks = p.depth / 8;
  // The result that the thread stores.
  const int my_column = thread % kTileColumns, my_row = thread / kTileColumns;
  const bool stores = my_row < p.rows && my_row < kTileRows && column + my_column < columns;
  const long long at = (long long)my_row * columns + column + my_column;
  let_next_kernel_start();
  Raw raw[kMatrices][kHalves][kSteps];
  Pack<float, 4> factors[kNorm ? kSteps : 1][2];
  const auto chunk_of = [&](int first, int step) { return ((first + step) * kWarps + warp) * 4 + quarter; };
  const auto load_constants = [&](int first) {
#pragma unroll
    for (int step = 0; step < kSteps; ++step) {
      const int chunk = chunk_of(first, step);
#pragma unroll
      for (int m = 0; m < kMatrices; ++m)
#pragma unroll
        for (int half = 0; half < kHalves; ++half) {
          raw[m][half][step] = Raw{};
          const long long mine = half * 8 + from_8;
          if (chunk < chunks && column + mine < columns)
            Weights::load(p, of[m].w, of[m].scales, of[m].zeros, of[m].first + mine, chunk, raw[m][half][step]);
        }
      if constexpr (kNorm) {
#pragma unroll
        for (int half = 0; half < 2; ++half) {
          factors[step][half] = Pack<float, 4>{};
          if (chunk < chunks) factors[step][half] = *reinterpret_cast<const Pack<float, 4>*>(g + chunk * 8 + half * 4);
        }
      }
    }
  };
  load_constants(0);
  float added = 0, added_to_gate = 0;
  if (stores && bias != nullptr) added = bias[column + my_column];
  if (kGated && stores && b1 != nullptr) added_to_gate = b1[column + my_column];
  wait_for_previous_kernel();
  T residual_element{};  // becomes a number when all loads are on their way
  if (stores && r != nullptr) residual_element = r[at];
  float sums[kMatrices][kRowTiles][4] = {}, squares[kRowTiles] = {};
  for (int first = 0; first * kWarps * 4 < chunks; first += kSteps) {
    if (first != 0) load_constants(first);
    Pack<unsigned, 4> of_x[kSteps][kRowTiles];
#pragma unroll
    for (int step = 0; step < kSteps; ++step)
#pragma unroll
      for (int tile = 0; tile < kRowTiles; ++tile) {
        const int chunk = chunk_of(first, step), row = tile * 8 + from_8;
        // Without a condition all loads are on their way before the first product; rows that are not there make results
        // that nobody stores.
        const long long from = (long long)(row < p.rows ? row : 0) * p.x_row + (chunk < chunks ? chunk * 8 : 0);
        of_x[step][tile] = *reinterpret_cast<const Pack<unsigned, 4>*>(x + from);
      }
#pragma unroll
    for (int step = 0; step < kSteps; ++step) {
#pragma unroll
      for (int tile = 0; tile < kRowTiles; ++tile)
        if (chunk_of(first, step) >= chunks) of_x[step][tile] = Pack<unsigned, 4>{};
      if constexpr (kNorm) {
#pragma unroll
        for (int tile = 0; tile < kRowTiles; ++tile)
#pragma unroll
          for (int i = 0; i < 8; ++i) {
            const float v = (float)load(T{(unsigned short)(of_x[step][tile].v[i / 2] >> i % 2 * 16)});
            squares[tile] += v * v;
          }
      }
#pragma unroll
      for (int m = 0; m < kMatrices; ++m) {
        unsigned pairs[2][4] = {};
#pragma unroll
        for (int half = 0; half < kHalves; ++half)
          pairs_of<T, Weights, kNorm>(raw[m][half][step], factors[kNorm ? step : 0], pairs[half]);
#pragma unroll
        for (int i = 0; i < 4; i += 2) {
          const unsigned a[4] = {pairs[0][i], pairs[1][i], pairs[0][i + 1], pairs[1][i + 1]};
#pragma unroll
          for (int tile = 0; tile < kRowTiles; ++tile)
            multiply_tile<T>(sums[m][tile], a, of_x[step][tile].v[i], of_x[step][tile].v[i + 1]);
        }
      }
    }
  }
#pragma unroll
  for (int m = 0; m < kMatrices; ++m)
#pragma unroll
    for (int tile = 0; tile < kRowTiles; ++tile)
#pragma unroll
      for (int i = 0; i < kHalves * 2; ++i)
        parts[m][warp][tile * 8 + quarter * 2 + i % 2][i / 2 * 8 + from_8] = sums[m][tile][i];
  if constexpr (kNorm) {
#pragma unroll
    for (int tile = 0; tile < kRowTiles; ++tile) {
      const float sum = lane_sum<4>(squares[tile]);
      if (quarter == 0) squares_of[warp][tile * 8 + from_8] = sum;
    }
  }
  __syncthreads();
  if (!stores) return;
  const float residual = (float)load(residual_element);
  float v = 0, gate = 0, square = 0;
#pragma unroll
  for (int one = 0; one < kWarps; ++one) {
    v += parts[0][one][my_row][my_column];
    if constexpr (kGated) gate += parts[kMatrices - 1][one][my_row][my_column];
    if constexpr (kNorm) square += squares_of[one][my_row];
  }
  float factor = p.scale;
  if constexpr (kNorm) factor /= sqrt_of(square * p.inverse_depth + p.epsilon);
  v = v * factor + added;
  if constexpr (kGated) {
    v = activate<kActivation>(v, p.act_alpha, p.act_beta) * (gate * factor + added_to_gate) + residual;
  } else {
    if (!p.residual_after) v += residual;
    v = activate<kActivation>(v, p.act_alpha, p.act_beta);
    if (p.residual_after) v += residual;
  }
  y[at] = store<T>(v);
}

}  // namespace tenon::cuda::device
