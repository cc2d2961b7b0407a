// Shared by the convolution kernels: packed weights, bias and residual of any kind, scratch by thread, output channel
// tiles.
#pragma once

#include <atomic>
#include <cstring>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "ep/cpu/ops/conv/shape.h"

namespace tenon::cpu {

// Writes a weight in a kernel's order; `weight` ends with the call.
using PackFloats = std::function<void(const float* weight, float* packed)>;

// A constant weight in a kernel's own order, without subnormal numbers, from the session's cache or (without one) this
// kernel's alone.
Result<std::shared_ptr<const float>> pack_weights(const KernelNode& node, size_t input, std::string_view format,
                                                  int64_t floats, const PackFloats& pack);

// `count` zeroed floats, aligned to 64 bytes. Null when there is no memory.
std::shared_ptr<float> aligned_floats(int64_t count);

// OK if the input is a constant of so many float32 numbers.
Status expect_constant_floats(const KernelNode& node, size_t input, int64_t count);
// Those numbers, which then stay in memory: not for weights that are packed.
Result<std::span<const float>> constant_floats(const KernelNode& node, size_t input, int64_t count);

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

// Scratch by worker: as many equal slots as threads, claimed for the time of one chunk.
class ScratchSlots {
 public:
  ScratchSlots(std::byte* base, size_t slot_bytes, int slots) : base_(base), slot_bytes_(slot_bytes), slots_(slots) {}

  class Claim {
   public:
    explicit Claim(ScratchSlots& slots);
    ~Claim();
    Claim(const Claim&) = delete;
    Claim& operator=(const Claim&) = delete;
    float* floats() const { return reinterpret_cast<float*>(slots_.base_ + slots_.slot_bytes_ * index_); }

   private:
    ScratchSlots& slots_;
    size_t index_ = 0;
  };

 private:
  std::byte* base_;
  size_t slot_bytes_;
  int slots_;
  std::atomic<uint64_t> taken_{0};
};
inline constexpr int kMaxScratchSlots = 64;
int scratch_slots(const KernelNode& node);

// Why a node's tensors do not lie as wanted; OK when they do. Absent tensors fit.
Status expect_layout(const TensorSpec& spec, Layout layout, const char* what);

// Items of a parallel_for that are worth handing to another thread: about 5 microseconds of work. `item_vectors` is
// what one item takes, in vectors of 8 that are multiplied or moved.
inline int64_t grain_of(int64_t item_vectors) {
  return std::max<int64_t>(1, 24 * 1024 / std::max<int64_t>(1, item_vectors));
}

inline int64_t round_up(int64_t value, int64_t step) { return (value + step - 1) / step * step; }

// Adds the residual (may be null) to `count` results that lie side by side, and applies the activation, in the
// epilogue's order.
void finish_run(const Epilogue& epilogue, float* y, const float* residual, int64_t count);

}  // namespace tenon::cpu
