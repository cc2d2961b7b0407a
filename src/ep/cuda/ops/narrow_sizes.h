// Compiled kernels take float32, f16 and bf16 and count in 32 bits.
#pragma once

#include <cstdint>
#include <initializer_list>

#include "ep/cuda/compute/lowering.h"

namespace tenon::cuda {

inline bool is_kernel_float(DataType type) {
  return type == DataType::kFloat || type == DataType::kFloat16 || type == DataType::kBfloat16;
}

// A size that was compared with INT32_MAX before, as check_sizes() does.
inline int32_t narrow(int64_t value) { return static_cast<int32_t>(value); }

// Errors: kUnsupported where one of a node's sizes is beyond 32 bits.
inline Status check_sizes(const Lowering& to, const Node& node, std::initializer_list<int64_t> sizes) {
  for (int64_t size : sizes)
    TENON_UNSUPPORTED_IF(size > INT32_MAX, "{} has {} rows, columns or pixels; its kernel counts {}.", to.label(node),
                         size, INT32_MAX);
  return Status();
}

}  // namespace tenon::cuda
