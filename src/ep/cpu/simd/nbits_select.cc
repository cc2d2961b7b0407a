#include "ep/cpu/simd/isa.h"
#include "ep/cpu/simd/nbits.h"

TENON_SIMD_SELECT(NBitsTable, nbits_table)
