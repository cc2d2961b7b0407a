#include "ep/cpu/simd/elementwise.h"

#include "ep/cpu/simd/isa.h"

TENON_SIMD_SELECT(EltwiseTable, eltwise_table)
