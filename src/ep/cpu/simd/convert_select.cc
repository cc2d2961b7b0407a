#include "ep/cpu/simd/convert.h"
#include "ep/cpu/simd/isa.h"

TENON_SIMD_SELECT(ConvertTable, convert_table)
