#include "ep/cpu/simd/conv_bytes.h"
#include "ep/cpu/simd/isa.h"

TENON_VNNI_SELECT(ConvBytesTable, conv_bytes_table)
