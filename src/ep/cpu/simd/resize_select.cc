#include "ep/cpu/simd/resize.h"

#include "ep/cpu/simd/isa.h"

TENON_SIMD_SELECT(ResizeTable, resize_table)
