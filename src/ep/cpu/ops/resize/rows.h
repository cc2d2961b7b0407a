// Resize whose scales are known before the run.
#pragma once

#include "ep/api/kernel.h"

namespace tenon::cpu {

// Linear and cubic on f32, plain or blocked.
Status match_resize_mix(const KernelNode& node);
Result<std::unique_ptr<Kernel>> create_resize_mix(const KernelNode& node);
// Nearest on any type, plain, and on blocked f32 and bytes.
Status match_resize_copy(const KernelNode& node);
Result<std::unique_ptr<Kernel>> create_resize_copy(const KernelNode& node);
// Linear on bytes, plain or blocked.
Status match_resize_bytes(const KernelNode& node);
Result<std::unique_ptr<Kernel>> create_resize_bytes(const KernelNode& node);

}  // namespace tenon::cpu
