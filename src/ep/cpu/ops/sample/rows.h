// GridSample and DeformConv of f32: weights and offsets of a block of positions serve all channels.
#pragma once

#include "ep/api/kernel.h"

namespace tenon::cpu::nn {

Status match_grid_sample(const KernelNode& node);
Result<std::unique_ptr<Kernel>> create_grid_sample(const KernelNode& node);

Status match_deform_conv(const KernelNode& node);  // two spatial axes
Result<std::unique_ptr<Kernel>> create_deform_conv(const KernelNode& node);

}  // namespace tenon::cpu::nn
