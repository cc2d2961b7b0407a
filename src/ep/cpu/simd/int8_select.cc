#include "ep/cpu/simd/int8.h"

#include "ep/cpu/simd/isa.h"

TENON_VNNI_SELECT(Int8Table, int8_table)
