#pragma once

#include "ep/cpu/ops/reference_kernel.h"

namespace tenon::cpu::ref {

Result<RefImpl> make_top_k(RefNode& node);

}  // namespace tenon::cpu::ref
