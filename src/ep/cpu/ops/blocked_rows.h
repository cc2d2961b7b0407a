// The rows of blocked_list.cc, by file.
#pragma once

#include "ep/api/kernel.h"

namespace tenon::cpu {

// conv/winograd.cc: 3x3, stride 1, blocked.
Status match_conv_winograd(const KernelNode& node);
Result<std::unique_ptr<Kernel>> create_conv_winograd(const KernelNode& node);
// conv/depthwise.cc: one input and one output channel a group, blocked.
Status match_conv_depthwise(const KernelNode& node);
Result<std::unique_ptr<Kernel>> create_conv_depthwise(const KernelNode& node);
// conv/direct.cc: any window, blocked or (few channels) plain input, blocked output.
Status match_conv_direct(const KernelNode& node);
Result<std::unique_ptr<Kernel>> create_conv_direct(const KernelNode& node);
// conv/few_outputs.cc: fewer than eight outputs, blocked input, plain output.
Status match_conv_few(const KernelNode& node);
Status match_conv_transpose_few(const KernelNode& node);
Result<std::unique_ptr<Kernel>> create_conv_few(const KernelNode& node);
Status match_conv_few_plain(const KernelNode& node);  // from fewer than eight plain channels
Result<std::unique_ptr<Kernel>> create_conv_few_plain(const KernelNode& node);
// conv/transpose.cc: blocked input, blocked or (small windows without overlap) plain output.
Status match_conv_transpose(const KernelNode& node);
Result<std::unique_ptr<Kernel>> create_conv_transpose(const KernelNode& node);
// conv/transpose_columns.cc: plain, any rank, groups and dilations.
Status match_transpose_columns(const KernelNode& node);
Result<std::unique_ptr<Kernel>> create_transpose_columns(const KernelNode& node);
// pool/blocked.cc
Status match_window_pool(const KernelNode& node);
Result<std::unique_ptr<Kernel>> create_window_pool(const KernelNode& node);
Status match_global_pool(const KernelNode& node);  // also ReduceMean and ReduceMax over all spatial axes
Result<std::unique_ptr<Kernel>> create_global_pool(const KernelNode& node);
// elementwise/blocked.cc
Status match_blocked_binary(const KernelNode& node);
Result<std::unique_ptr<Kernel>> create_blocked_binary(const KernelNode& node);
Status match_blocked_activation(const KernelNode& node);
Result<std::unique_ptr<Kernel>> create_blocked_activation(const KernelNode& node);
// moves/blocked.cc
// OK if all are blocked, and only the last part along the channels has a block that is not full.
Status match_parts(Result<int> axis, std::span<const TensorSpec> parts, const TensorSpec& whole);
Status match_reorder(const KernelNode& node);
Result<std::unique_ptr<Kernel>> create_reorder(const KernelNode& node);
Status match_blocked_concat(const KernelNode& node);
Result<std::unique_ptr<Kernel>> create_blocked_concat(const KernelNode& node);
Status match_blocked_split(const KernelNode& node);
Result<std::unique_ptr<Kernel>> create_blocked_split(const KernelNode& node);
// norm/blocked.cc: InstanceNormalization, GroupNormalization
Status match_blocked_group_norm(const KernelNode& node);
Result<std::unique_ptr<Kernel>> create_blocked_group_norm(const KernelNode& node);
// pad/blocked.cc: spatial dimensions.
Status match_blocked_pad(const KernelNode& node);
Result<std::unique_ptr<Kernel>> create_blocked_pad(const KernelNode& node);
Status match_blocked_slice(const KernelNode& node);
Result<std::unique_ptr<Kernel>> create_blocked_slice(const KernelNode& node);

}  // namespace tenon::cpu
