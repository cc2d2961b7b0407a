// Sums of products over named dimensions, where no matrix product serves: a thread for each element of the result.
#pragma once

#include "ep/cuda/ops/einsum/einsum_params.h"
#include "ep/cuda/templates/kernel.cuh"

namespace tenon::cuda::device {

// Same<...> for each operand: all have the result's type.
template <typename T, int kKept, int kSummed, bool kWide, typename... Same>
__global__ void __launch_bounds__(kMapThreads) einsum(EinsumParams<sizeof...(Same)> p, const Same*... operands, T* y) {
  using Index = index_t<kWide>;
  constexpr int kOperands = sizeof...(Same);
  const T* const all[] = {operands...};
  const Index flat = flat_index<Index>();
  begin_kernel();
  if (flat >= static_cast<Index>(p.count)) return;
  Index i[kKept], base[kOperands];
  split_index<kKept>(flat, p.kept.dims, i);
#pragma unroll
  for (int n = 0; n < kOperands; ++n) base[n] = offset_of<kKept>(i, p.kept.strides[n]);
  number_t<T> sum = 0;
  for (Index step = 0; step < static_cast<Index>(p.steps); ++step) {
    Index k[kSummed];
    split_index<kSummed>(step, p.summed.dims, k);
    number_t<T> product = 1;
#pragma unroll
    for (int n = 0; n < kOperands; ++n)
      product = n == 0 ? load(all[n][base[n] + offset_of<kSummed>(k, p.summed.strides[n])])
                       : product * load(all[n][base[n] + offset_of<kSummed>(k, p.summed.strides[n])]);
    sum += product;
  }
  y[flat] = store<T>(sum);
}

}  // namespace tenon::cuda::device
