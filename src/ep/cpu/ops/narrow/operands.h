// Operands of float16 and bfloat16 for loops over float32: a block at a time goes through a buffer that stays in L1.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string_view>

#include "ep/api/kernel.h"
#include "ep/cpu/simd/convert.h"

namespace tenon::cpu::nn {

// Elements of a block: with three operands, their buffers take 12 KiB of stack.
inline constexpr int64_t kNarrowBlock = 1024;

inline bool is_narrow(DataType type) { return type == DataType::kFloat16 || type == DataType::kBfloat16; }
inline bool is_any_float(DataType type) { return type == DataType::kFloat || is_narrow(type); }

// Elements [at, at + n) of a tensor as float32: its own memory, or `buffer` with them.
inline const float* read_floats(DataType type, const void* data, int64_t at, int64_t n, float* buffer) {
  if (type == DataType::kFloat) return static_cast<const float*>(data) + at;
  const auto* const from = static_cast<const uint16_t*>(data) + at;
  const ConvertTable& table = convert_table();
  (type == DataType::kFloat16 ? table.float_from_float16 : table.float_from_bfloat16)(from, buffer, n);
  return buffer;
}

// Where a loop leaves the elements from `at` on: in the tensor, or in `buffer` until end_floats().
inline float* begin_floats(DataType type, void* data, int64_t at, float* buffer) {
  return type == DataType::kFloat ? static_cast<float*>(data) + at : buffer;
}
inline void end_floats(DataType type, void* data, int64_t at, int64_t n, const float* buffer) {
  if (type == DataType::kFloat) return;
  auto* const to = static_cast<uint16_t*>(data) + at;
  const ConvertTable& table = convert_table();
  (type == DataType::kFloat16 ? table.float16_from_float : table.bfloat16_from_float)(buffer, to, n);
}

// OK if every present input and output is plain, of known size, and float32, float16 or bfloat16.
Status match_any_floats(const KernelNode& node);

// Operators that the pass "fuse_casts" gives operands of 16 bits, also beside float32 ones: domain and name.
struct NarrowedOperator {
  std::string_view domain, op_type;
};
std::span<const NarrowedOperator> narrowed_operators();

// Such a node with operands of float16 or bfloat16, by its best float32 kernel on widened copies.
Status match_narrow(const KernelNode& node);
Result<std::unique_ptr<Kernel>> create_narrow(const KernelNode& node);
// The same by the first of `rows` that takes it.
Result<std::unique_ptr<Kernel>> create_narrow(const KernelNode& node, std::span<const KernelEntry* const> rows);
// A node of that list which ONNX does not have: an internal operator on 16 bits, or floats of two types.
bool is_narrowed(const KernelNode& node);

}  // namespace tenon::cpu::nn
