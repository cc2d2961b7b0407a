#include "ep/cpu/simd/boxes.h"
#include "ep/cpu/simd/isa.h"

TENON_SIMD_SELECT(BoxesTable, boxes_table)
