// ArgMax and ArgMin for the list of the reductions.
#pragma once

#include "ep/cpu/ops/reference_kernel.h"

namespace tenon::cpu::ref {

Result<RefImpl> make_arg(RefNode& node);

}  // namespace tenon::cpu::ref
