#include "ep/cpu/simd/isa.h"
#include "ep/cpu/simd/window.h"

TENON_SIMD_SELECT(WindowTable, window_table)
