#include "ep/cpu/simd/byte_binary.h"
#include "ep/cpu/simd/isa.h"

TENON_SIMD_SELECT(ByteBinaryTable, byte_binary_table)
