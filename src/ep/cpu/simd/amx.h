// AMX: the tile registers of newer Xeons. An operating system grants them to a process that asks.
#pragma once

#include "base/status.h"

namespace tenon::cpu {

// Asks for the tile registers. Unsupported where the CPU lacks their int8 and bfloat16 products, or the system refuses.
Status request_amx();
// Whether they were granted; asked once, on the first call. Never where TENON_CPU_ISA names a set.
bool selected_amx();

}  // namespace tenon::cpu
