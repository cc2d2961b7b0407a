// Shared by the kernels of vector_list.cc: checks of a node's tensors, packed constants, decomposed shapes.
#pragma once

#include <memory>
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

// `bytes` of zeroed memory aligned to 64, filled by `pack`; from the session's cache when there is one.
Result<std::shared_ptr<const std::byte>> packed_constant(const KernelNode& node, const ConstantRef& constant,
                                                         std::string_view format, size_t bytes,
                                                         const std::function<void(std::byte*)>& pack);

// `axis` in [0, rank), counted from the end if negative. Errors: out of range.
Result<int> checked_axis(int64_t axis, int rank);
// Product of dims [begin, end).
int64_t span_count(const Shape& shape, int begin, int end);

inline constexpr size_t kScratchAlignment = 64;
inline constexpr size_t aligned_bytes(size_t bytes) {
  return (bytes + kScratchAlignment - 1) / kScratchAlignment * kScratchAlignment;
}

}  // namespace tenon::cpu::nn
