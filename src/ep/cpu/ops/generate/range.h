// Range. Its loops are in a file of their own, which compilers make vectors of.
#pragma once

#include "ep/cpu/ops/reference_kernel.h"

namespace tenon::cpu::ref {

using RangeTypes = decltype(FloatTypes() + TypeList<int16_t, int32_t, int64_t>());

Result<RefImpl> make_range(RefNode& node);

}  // namespace tenon::cpu::ref
