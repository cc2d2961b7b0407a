// MaxPool and AveragePool on the plain layout, and of bytes on the blocked one, by rows of the last axis.
#pragma once

#include "ep/api/kernel.h"
#include "ops/window.h"

namespace tenon::cpu::nn {

Status match_plain_pool(const KernelNode& node);
Result<std::unique_ptr<Kernel>> create_plain_pool(const KernelNode& node);
// Of bytes alone.
Status match_byte_max_pool(const KernelNode& node);
// Whether it takes windows of any stride at once, because rows of the image fit into a register.
bool takes_strided_rows(const Window& window, bool maximum);
// Of small maps, several of them side by side.
Status match_small_pool(const KernelNode& node);
Result<std::unique_ptr<Kernel>> create_small_pool(const KernelNode& node);
// MaxPool with indices.
Status match_pool_places(const KernelNode& node);
Result<std::unique_ptr<Kernel>> create_pool_places(const KernelNode& node);
// QLinearAveragePool.
Status match_byte_pool(const KernelNode& node);
Result<std::unique_ptr<Kernel>> create_byte_pool(const KernelNode& node);

}  // namespace tenon::cpu::nn
