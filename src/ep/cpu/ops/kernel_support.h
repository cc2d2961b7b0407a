// Shared by kernels: packed weights, scratch by thread, layouts, grains.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string_view>

#include "ep/api/kernel.h"

namespace tenon::cpu {

// Writes a weight in a kernel's order; `weight` ends with the call.
using PackFloats = std::function<void(const float* weight, float* packed)>;

// A constant in a kernel's own order, from the session's cache or (without one) this kernel's alone.
Result<std::shared_ptr<const float>> pack_floats(const KernelNode& node, size_t input, std::string_view format,
                                                 int64_t floats, const PackFloats& pack);
// The same without subnormal numbers: a weight.
Result<std::shared_ptr<const float>> pack_weights(const KernelNode& node, size_t input, std::string_view format,
                                                  int64_t floats, const PackFloats& pack);

// `count` zeroed floats, aligned to 64 bytes. Null when there is no memory.
std::shared_ptr<float> aligned_floats(int64_t count);

// OK if the input is a constant of so many float32 numbers.
Status expect_constant_floats(const KernelNode& node, size_t input, int64_t count);
// Those numbers, which then stay in memory: not for weights that are packed.
Result<std::span<const float>> constant_floats(const KernelNode& node, size_t input, int64_t count);

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

inline bool is_byte_type(DataType type) { return type == DataType::kUint8 || type == DataType::kInt8; }

// OK for float32. Casts to 16 bits may have gone into the node behind whose numbers they were.
Status expect_float(const TensorSpec& spec);
// OK for the types that kBlocked8 is for: float32, uint8 and int8.
Status expect_blocked_type(const TensorSpec& spec);

// OK if the size of each tensor is known before the run.
Status expect_known(const KernelNode& node);
// The same, and that the first output lies as the first input does: both plain, or of types for blocks.
Status expect_one_layout(const KernelNode& node);

// Elements in memory, with the channels that fill up blocks.
int64_t stored_count(const TensorSpec& spec);

// Items of a parallel_for that are worth handing to another thread: about 5 microseconds of work. `item_vectors` is
// what one item takes, in vectors of 8 that are multiplied or moved.
inline int64_t grain_of(int64_t item_vectors) {
  return std::max<int64_t>(1, 24 * 1024 / std::max<int64_t>(1, item_vectors));
}

inline int64_t round_up(int64_t value, int64_t step) { return (value + step - 1) / step * step; }

}  // namespace tenon::cpu
