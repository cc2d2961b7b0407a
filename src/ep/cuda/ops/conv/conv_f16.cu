#include "ep/cuda/ops/conv/gemm.cuh"

TENON_CONV_KERNELS(f16, __half, false)
