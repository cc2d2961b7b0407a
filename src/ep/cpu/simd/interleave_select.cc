#include "ep/cpu/simd/interleave.h"
#include "ep/cpu/simd/isa.h"

TENON_SIMD_SELECT(InterleaveTable, interleave_table)
