// Cast and CastLike from and to strings.
#pragma once

#include "ep/cpu/ops/reference_kernel.h"

namespace tenon::cpu::ref {

// OK if one side is strings, the other one anything but objects.
Status match_string_cast(const KernelNode& node);
Result<RefImpl> make_string_cast(RefNode& node);

}  // namespace tenon::cpu::ref
