#include "ep/cuda/ops/conv/gemm.cuh"

TENON_CONV_KERNELS(f32, float, true)
