#include "gemm.cuh"

TENON_CONV_KERNELS(f16, __half, false)
