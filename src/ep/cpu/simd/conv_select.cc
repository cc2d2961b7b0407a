#include "ep/cpu/simd/conv.h"
#include "ep/cpu/simd/isa.h"

TENON_SIMD_SELECT(ConvTable, conv_table)
