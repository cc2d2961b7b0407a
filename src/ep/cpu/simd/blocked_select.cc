#include "ep/cpu/simd/blocked.h"
#include "ep/cpu/simd/isa.h"

TENON_SIMD_SELECT(BlockedTable, blocked_table)
