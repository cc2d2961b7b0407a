// Softmax and LogSoftmax over the last dimension: a block a row, read again for each pass.
#include "ep/cuda/compute/kernel_params.h"
#include "ep/cuda/ops/common.cuh"

namespace tenon::cuda::device {

constexpr int kThreads = 128;

template <typename T>
__device__ void softmax(const SoftmaxParams& p) {
  const int64_t row = static_cast<int64_t>(blockIdx.x) * p.columns;
  const T* const x = static_cast<const T*>(p.x) + row;
  T* const y = static_cast<T*>(p.y) + row;
  wait_for_previous_kernel();
  let_next_kernel_start();
  float largest = -INFINITY;
  for (int c = threadIdx.x; c < p.columns; c += kThreads) largest = fmaxf(largest, to_float(x[c]));
  largest = block_reduce<kThreads>(largest, true);
  float total = 0;
  for (int c = threadIdx.x; c < p.columns; c += kThreads) total += __expf(to_float(x[c]) - largest);
  total = block_reduce<kThreads>(total, false);
  const bool masked = p.guarded && total != total;  // the whole row would be NaN
  const float inverse = 1.0f / total, log_total = logf(total);
  for (int c = threadIdx.x; c < p.columns; c += kThreads) {
    const float v = to_float(x[c]);
    y[c] = from_float<T>(p.logarithm ? (v - largest) - log_total : masked ? 0.0f : __expf(v - largest) * inverse);
  }
}

}  // namespace tenon::cuda::device

#define TENON_SOFTMAX_KERNEL(type, T)                                        \
  extern "C" __global__ void __launch_bounds__(128)                          \
      softmax_##type(const __grid_constant__ tenon::cuda::SoftmaxParams p) { \
    tenon::cuda::device::softmax<T>(p);                                      \
  }
TENON_SOFTMAX_KERNEL(f16, __half)
TENON_SOFTMAX_KERNEL(bf16, __nv_bfloat16)
TENON_SOFTMAX_KERNEL(f32, float)
