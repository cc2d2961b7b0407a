// Conv and ConvTranspose on f32 in the plain layout whose outputs read one channel each (depthwise, with any number of
// outputs a channel and of spatial dimensions), for the nodes that no blocked kernel takes.
#pragma once

#include "ep/api/kernel.h"

namespace tenon::cpu::nn {

// Of a node that match_plain_conv() takes.
Result<std::unique_ptr<Kernel>> create_channel_rows(const KernelNode& node);

}  // namespace tenon::cpu::nn
