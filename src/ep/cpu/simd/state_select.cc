#include "ep/cpu/simd/isa.h"
#include "ep/cpu/simd/state.h"

TENON_SIMD_SELECT(StateTable, state_table)
