// Conv on f32 in the plain layout, for the nodes that no blocked kernel takes.
#pragma once

#include "ep/api/kernel.h"

namespace tenon::cpu::nn {

// Of a node that match_plain_conv() takes.
Result<std::unique_ptr<Kernel>> create_conv_columns(const KernelNode& node);

}  // namespace tenon::cpu::nn
