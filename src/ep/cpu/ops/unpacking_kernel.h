// A reference kernel for tensors of less than a byte an element, over a maker that knows whole bytes alone.
#pragma once

#include "ep/cpu/ops/reference_kernel.h"

namespace tenon::cpu::ref {

// Before each run the codes of packed inputs are written to bytes of their own; what the maker's function leaves in the
// bytes of packed outputs is packed behind it. The maker sees uint8 in place of each packed type.
Result<std::unique_ptr<Kernel>> make_unpacking_kernel(const KernelNode& node, RefMaker maker);

}  // namespace tenon::cpu::ref
