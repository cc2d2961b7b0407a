#include "ep/cpu/simd/integers.h"

#include "ep/cpu/simd/isa.h"

TENON_SIMD_SELECT(IntegerTable, integer_table)
