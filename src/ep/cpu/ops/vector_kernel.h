// Shared by the kernels of vector_list.cc: checks of a node's tensors, packed constants, decomposed shapes.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <span>
#include <string_view>

#include "base/status.h"
#include "ep/api/kernel.h"
#include "ep/cpu/ops/reference_kernel.h"

namespace tenon::cpu::nn {

using ref::input_spec;
using ref::output_spec;

// OK if every present input and output is plain and of `type`.
Status match_plain(const KernelNode& node, DataType type);
// The constant of an input, or null.
const Constant* constant_input(const KernelNode& node, size_t index);

// Writes the packed form of a weight, whose bytes (aligned to its element) end with the call.
using PackBytes = std::function<void(const std::byte* weight, std::byte* packed)>;

// `bytes` of zeroed memory aligned to 64, filled by `pack`; from the session's cache when there is one. `constants`:
// see WeightCache::get.
Result<std::shared_ptr<const std::byte>> packed_constant(const KernelNode& node, std::span<const ConstantRef> constants,
                                                         std::string_view format, size_t bytes, const PackBytes& pack);
inline Result<std::shared_ptr<const std::byte>> packed_constant(const KernelNode& node, const ConstantRef& constant,
                                                                std::string_view format, size_t bytes,
                                                                const PackBytes& pack) {
  return packed_constant(node, std::span(&constant, 1), format, bytes, pack);
}

// What `look` says about a constant, whose bytes it sees as they lie in the model, aligned or not. It is asked once for
// a session with a cache; `name` is a format of the cache.
using LookAtBytes = std::function<std::byte(std::span<const std::byte> bytes)>;
Result<std::byte> found_in_constant(const KernelNode& node, const ConstantRef& constant, std::string_view name,
                                    const LookAtBytes& look);

// Subnormal numbers become zero: an Intel CPU takes more than a hundred cycles for each product with one, and training
// leaves them in weights that it has switched off (63 % of a layer of ppocr_v6_det, which then took 180 times as long).
void clear_subnormals(std::span<float> numbers);

// For a kernel that reads its weight as it lies: a copy of constant input `index` without subnormal numbers, or null if
// the input has none of those, or is no constant.
Result<std::shared_ptr<const std::byte>> cleared_constant(const KernelNode& node, size_t index);

// `axis` in [0, rank), counted from the end if negative. Errors: out of range.
Result<int> checked_axis(int64_t axis, int rank);
// Product of dims [begin, end).
int64_t span_count(const Shape& shape, int begin, int end);

inline constexpr size_t kScratchAlignment = 64;
inline constexpr size_t aligned_bytes(size_t bytes) {
  return (bytes + kScratchAlignment - 1) / kScratchAlignment * kScratchAlignment;
}

}  // namespace tenon::cpu::nn
