#include "gemm.cuh"

TENON_CONV_KERNELS(f32, float, true)
