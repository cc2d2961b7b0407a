#include "ep/cpu/simd/attention.h"
#include "ep/cpu/simd/isa.h"

TENON_SIMD_SELECT(AttentionTable, attention_table)
