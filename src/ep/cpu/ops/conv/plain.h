// Shared by the convolutions on f32 in the plain layout.
#pragma once

#include "ep/api/kernel.h"
#include "ops/activation.h"
#include "ops/conv.h"

namespace tenon::cpu::nn {

// OK if all tensors are float32 in the plain layout, and X and the weights are there.
Status match_plain_conv(const KernelNode& node);

struct PlainConv {
  ConvDesc desc;
  Epilogue epilogue;  // of a node that the planner has fused
};
// The node's description; its output, bias and residual have the shapes that it asks for. Errors: kUnsupported where
// a tensor has no elements or there is no spatial axis.
Result<PlainConv> read_plain_conv(const KernelNode& node);

}  // namespace tenon::cpu::nn
