#include "ep/cuda/ops/conv/hopper.cuh"

// TENON_HOPPER_KERNEL(type, T, rows, columns, stages)
#define TENON_HOPPER_KERNEL(type, T, rows, columns, stages)                                        \
  extern "C" __global__ void __launch_bounds__(2 * (rows))                                         \
      conv_hopper_##type##_##rows##x##columns(const __grid_constant__ tenon::cuda::ConvParams p) { \
    tenon::cuda::device::HopperTile<T, rows, columns, stages>::run(p);                             \
  }
// Tiles of conv/op.cc.
#define TENON_HOPPER_KERNELS(type, T)       \
  TENON_HOPPER_KERNEL(type, T, 64, 64, 6)   \
  TENON_HOPPER_KERNEL(type, T, 64, 80, 6)   \
  TENON_HOPPER_KERNEL(type, T, 128, 80, 6)  \
  TENON_HOPPER_KERNEL(type, T, 128, 128, 4) \
  TENON_HOPPER_KERNEL(type, T, 128, 160, 5)

TENON_HOPPER_KERNELS(f16, __half)
TENON_HOPPER_KERNELS(bf16, __nv_bfloat16)
