#include "ep/cpu/simd/fft.h"
#include "ep/cpu/simd/isa.h"

TENON_SIMD_SELECT(FftTable, fft_table)
