// Elementwise chains with operands that lie the other way round.
#pragma once

#include "ep/cuda/ops/elementwise/elementwise.cuh"
#include "ep/cuda/templates/kernel.cuh"

namespace tenon::cuda::device {

// The same where neighbours of some operands lie along another dimension, kTurned, than the result's: read one element
// at a time they would take a sector of memory for each, so a block reads squares of them and turns these in shared
// memory. The sizes of both dimensions are counted in tiles.
template <typename Chain, bool kWide, int kRank, int kTurned, unsigned kMask, bool kDense, typename Out,
          typename... Operands>
__global__ void __launch_bounds__(kMapThreads)
    elementwise_tiles(const ElementwiseParams<kWide, kRank, sizeof...(Operands) + 1, 0> p,
                      const typename Operands::Type*... operands, Out* y) {
  using Index = index_t<kWide>;
  using Own = Reads<0, 1, Operands...>;
  const void* const all[] = {operands..., nullptr};
  const Index rows = static_cast<Index>(p.extents[0]), columns = static_cast<Index>(p.extents[1]);
  const unsigned across = threadIdx.x % kTileSide, down = threadIdx.x / kTileSide;
  begin_kernel();
  Index i[kRank], rest = blockIdx.x;
  const Index right = split(rest, p.sizes[kRank - 1]) * kTileSide, below = split(rest, p.sizes[kTurned]) * kTileSide;
#pragma unroll
  for (int d = kRank - 2; d >= 0; --d)
    if (d != kTurned) i[d] = split(rest, p.sizes[d]);
#pragma unroll
  for (unsigned r = 0; r < kTileSide; r += kTileRows) {
    i[kTurned] = below + across, i[kRank - 1] = right + down + r;
    if (i[kTurned] < rows && i[kRank - 1] < columns) Own::fill_tiles(p, all, i, down + r, across);
  }
  __syncthreads();
#pragma unroll
  for (unsigned r = 0; r < kTileSide; r += kTileRows) {
    i[kTurned] = below + down + r, i[kRank - 1] = right + across;
    if (i[kTurned] >= rows || i[kRank - 1] >= columns) continue;
    Own reads;
    reads.read(p, all, i, down + r, across);
    y[offset_of<kMask, kDense>(p.layouts[sizeof...(Operands)], i)] = store<Out>(reads.template make<Chain>(0));
  }
}

}  // namespace tenon::cuda::device
