#include "ep/cpu/simd/isa.h"
#include "ep/cpu/simd/probe.h"

TENON_SIMD_SELECT(ProbeTable, probe_table)
