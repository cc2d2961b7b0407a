// StringSplit.
#pragma once

#include "ep/cpu/ops/reference_kernel.h"

namespace tenon::cpu::ref {

Result<RefImpl> make_string_split(RefNode& node);

}  // namespace tenon::cpu::ref
