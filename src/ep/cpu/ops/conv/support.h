// Shared by the convolution kernels: bias and residual of any kind, output channel tiles.
#pragma once

#include <memory>
#include <vector>

#include "ep/cpu/ops/conv/shape.h"
#include "ep/cpu/ops/kernel_support.h"

namespace tenon::cpu {

// The bias of a convolution, zero up to the next multiple of 8 channels; all zero when the input is absent. A constant
// is padded once, its subnormal values become zero; one that only the run knows is padded into scratch by each run.
class ConvBias {
 public:
  static Result<ConvBias> create(const KernelNode& node, size_t input, int64_t outputs);
  // Bytes of scratch that a run needs; 0 for a constant.
  size_t scratch_bytes() const { return at_run_ ? padded_.size() * sizeof(float) : 0; }
  // The padded values. `scratch` has scratch_bytes(), and stays as it is until the run ends.
  const float* values(const KernelContext& context, std::byte* scratch) const;

 private:
  std::vector<float> padded_;
  size_t input_ = 0;
  int64_t outputs_ = 0;
  bool at_run_ = false;
};

// A residual as blocked kernels read it: input `input`, blocked by the planner; or, where that is a constant of the
// output's shape (which stays plain), a blocked copy that the session's plans share.
class ConvResidual {
 public:
  // Why the residual does not fit a blocked output; OK when it does, or is absent.
  static Status match(const KernelNode& node, size_t input);
  static Result<ConvResidual> create(const KernelNode& node, size_t input);
  const float* values(const KernelContext& context) const {
    return constant_ ? constant_.get() : context.input<float>(input_);
  }
  // False for a constant: its memory must not change.
  bool may_be_output() const { return constant_ == nullptr; }

 private:
  size_t input_ = 0;
  std::shared_ptr<const float> constant_;
};

// Output channels that one run computes at once.
struct OutputTile {
  int64_t block = 0;    // first block of 8 output channels
  int width = 1;        // blocks
  int64_t weights = 0;  // where its packed weights begin
};
// As few tiles as the table's widths allow and none narrow: with at most 3 blocks a run, pairs, and one group of three
// or a single one where the number is odd. `floats_per_block` is the packed weights of one block.
std::vector<OutputTile> output_tiles(int64_t blocks, int64_t floats_per_block);

// Adds the residual (may be null) to `count` results that lie side by side, and applies the activation, in the
// epilogue's order.
void finish_run(const Epilogue& epilogue, float* y, const float* residual, int64_t count);

}  // namespace tenon::cpu
