// Joins tensors along a dimension, whatever its place: each thread copies a vector.
#pragma once

#include "ep/cuda/ops/moves/concat_params.h"
#include "ep/cuda/templates/kernel.cuh"

namespace tenon::cuda::device {

// `Parts` are as many times Word as there are tensors.
template <typename Word, int kWords, bool kWide, typename... Parts>
__global__ void __launch_bounds__(kMapThreads) concat(ConcatParams p, const Parts*... parts, Word* y) {
  using Index = index_t<kWide>;
  using Vector = Pack<Word, kWords>;
  const Word* const all[] = {parts...};
  begin_kernel();
  Index row = flat_index<Index>();
  if (row >= (Index)p.count) return;
  const Index column = split(row, p.width);
  const Word* from = all[0];
  Index at = row * (Index)p.widths[0] + column;
#pragma unroll
  for (int n = 1; n < (int)sizeof...(Parts); ++n) {
    if (column < (Index)p.begins[n]) continue;
    from = all[n];
    at = row * (Index)p.widths[n] + column - (Index)p.begins[n];
  }
  ((Vector*)y)[row * (Index)p.row + (Index)p.first + column] = ((const Vector*)from)[at];
}

}  // namespace tenon::cuda::device
