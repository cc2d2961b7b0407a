#include "ep/cuda/ops/conv/gemm.cuh"

TENON_CONV_KERNELS(tf32, float, false)
