// How instance and group normalisation of images with channels last is divided among blocks (channels_last.cuh).
#pragma once

#include <tenon/types.h>

#include <optional>

#include "ep/cuda/compute/lowering.h"
#include "ep/cuda/ops/norm/channels_last_params.h"
#include "ops/norm.h"

namespace tenon::cuda {

struct ImageNormPlan {
  // One kernel, whose blocks keep a slice of an image's channels in registers. Otherwise a kernel for the moments of
  // chunks, whose blocks and sizes are `moments`, and then one that normalises.
  bool once = false;
  int64_t threads = 256, vector = 1, turns = 1, moment_turns = 1, lanes = 32, moment_lanes = 32;
  bool whole = false;  // a vector lies within a group
  int64_t blocks = 0, moment_blocks = 0;
  ChannelsLastNormParams params, moments;
};

// Nothing for what the kernels do not serve: types other than float32, f16 and bf16, tensors of 2^31 elements or more,
// groups of which a block could not have one whole, and nothing at all.
std::optional<ImageNormPlan> plan_image_norm(const GroupNormDesc& desc, DataType type);

// False, and nothing done, where the input does not lie with channels last.
Result<bool> lower_image_norm(Lowering& to, const Node& node);

}  // namespace tenon::cuda
