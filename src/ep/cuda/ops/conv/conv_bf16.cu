#include "ep/cuda/ops/conv/gemm.cuh"

TENON_CONV_KERNELS(bf16, __nv_bfloat16, false)
