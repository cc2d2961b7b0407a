#include "ep/cpu/simd/isa.h"
#include "ep/cpu/simd/nbits8.h"

TENON_VNNI_SELECT(NBits8Table, nbits8_table)
