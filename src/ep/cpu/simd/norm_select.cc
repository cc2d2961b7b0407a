#include "ep/cpu/simd/isa.h"
#include "ep/cpu/simd/norm.h"

TENON_SIMD_SELECT(NormTable, norm_table)
