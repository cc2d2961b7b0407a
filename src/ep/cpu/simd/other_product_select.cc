#include "ep/cpu/simd/isa.h"
#include "ep/cpu/simd/other_product.h"

TENON_SIMD_SELECT(OtherProductTable, other_product_table)
