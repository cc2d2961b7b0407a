#include "ep/cpu/simd/isa.h"
#include "ep/cpu/simd/pool.h"

TENON_SIMD_SELECT(PoolTable, pool_table)
