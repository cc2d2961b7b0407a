#include "ep/cpu/simd/quantize.h"

#include "ep/cpu/simd/isa.h"

TENON_SIMD_SELECT(QuantizeTable, quantize_table)
