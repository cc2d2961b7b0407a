#include "ep/cpu/simd/depthwise_bytes.h"
#include "ep/cpu/simd/isa.h"

TENON_SIMD_SELECT(DepthwiseBytesTable, depthwise_bytes_table)
