#include "ep/cpu/simd/gemm.h"

#include "ep/cpu/simd/isa.h"

TENON_SIMD_SELECT(GemmTable, gemm_table)
