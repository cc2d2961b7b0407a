#include "ep/cpu/simd/isa.h"
#include "ep/cpu/simd/winograd.h"

TENON_SIMD_SELECT(WinogradTable, winograd_table)
