#include "ep/cpu/simd/recurrent.h"

#include "ep/cpu/simd/isa.h"

TENON_SIMD_SELECT(RecurrentTable, recurrent_table)
