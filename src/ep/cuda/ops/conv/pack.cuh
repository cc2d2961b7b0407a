// Weights that are no constants, in the order of a kernel.
#pragma once

#include "ep/cuda/ops/conv/pack_params.h"
#include "ep/cuda/templates/kernel.cuh"

namespace tenon::cuda::device {

// kTf32: rounded to the nearest TF32, as round_weights() does on the host.
template <typename From, typename To, int kRank, bool kTf32>
__global__ void __launch_bounds__(kMapThreads) pack_weights(PackParams p, const From* w, To* y) {
  const unsigned flat = flat_index<unsigned>();
  begin_kernel();
  if (flat >= static_cast<unsigned>(p.count)) return;
  unsigned i[kRank];
  split_index<kRank>(flat, p.dims, i);
  bool inside = true;
#pragma unroll
  for (int d = 0; d < kRank; ++d) inside = inside && i[d] < static_cast<unsigned>(p.limits[d]);
  float v = inside ? static_cast<float>(load(w[offset_of<kRank>(i, p.strides)])) : 0.0f;
  // A number that is not finite has no room for a carry.
  if (kTf32 && v - v == 0) v = __uint_as_float((__float_as_uint(v) + 0x1000u) & 0xffffe000u);
  y[flat] = store<To>(v);
}

}  // namespace tenon::cuda::device
