#include "ep/cpu/simd/doubles.h"

#include "ep/cpu/simd/isa.h"

TENON_SIMD_SELECT(DoubleTable, double_table)
