// Zero points and steps of quantised numbers as the vector kernels take them.
#pragma once

#include "ep/api/kernel.h"
#include "ep/cpu/simd/int8.h"
#include "ops/input_shapes.h"

namespace tenon::cpu::nn {

// Element `index` of zero points of uint8 or int8; 0 without any.
inline int32_t integer_zero(const uint8_t* zeros, bool is_signed, int64_t index) {
  if (zeros == nullptr) return 0;
  return is_signed ? static_cast<int8_t>(zeros[index]) : zeros[index];
}

// The step of a scale, and of the zero point in input `zero`, whose bytes are of `type`.
inline Int8Step step_of(float scale, std::span<const void* const> inputs, size_t zero, DataType type) {
  const bool is_signed = type == DataType::kInt8;
  const auto* const zeros = zero < inputs.size() ? static_cast<const uint8_t*>(inputs[zero]) : nullptr;
  return {.inverse = 1 / scale, .zero = static_cast<float>(integer_zero(zeros, is_signed, 0) + (is_signed ? 128 : 0))};
}

}  // namespace tenon::cpu::nn
