#include "ep/cpu/simd/isa.h"
#include "ep/cpu/simd/sample.h"

TENON_SIMD_SELECT(SampleTable, sample_table)
