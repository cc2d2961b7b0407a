#include "ep/cpu/simd/isa.h"
#include "ep/cpu/simd/lines.h"

TENON_SIMD_SELECT(LineTable, line_table)
