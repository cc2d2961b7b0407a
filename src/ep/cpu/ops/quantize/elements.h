// Elements of quantised tensors, whatever their type, for the reference kernels.
#pragma once

#include <algorithm>
#include <cmath>

#include "ep/cpu/ops/reference_kernel.h"

namespace tenon::cpu::ref {

// An element as a double; every type here fits into one.
using ReadElement = double (*)(const void* data, int64_t index);

template <typename T>
double read_element(const void* data, int64_t index) {
  return static_cast<double>(static_cast<Compute<T>>(static_cast<const T*>(data)[index]));
}

// Null for a type that quantised operators do not take.
inline ReadElement element_reader(DataType type) {
  using Types = TypeList<float, Float16, BFloat16, int8_t, uint8_t, int16_t, uint16_t, int32_t>;
  return select(Types(), type, []<typename T>() -> ReadElement { return &read_element<T>; });
}

// `quotient` rounded to even, plus the zero point, in T's range; NaN becomes the lowest number.
template <typename T>
T saturated_sum(double quotient, double zero_point) {
  constexpr double kLow = std::numeric_limits<T>::lowest(), kHigh = std::numeric_limits<T>::max();
  const double sum = std::nearbyint(quotient) + zero_point;
  return static_cast<T>(sum > kLow ? std::min(sum, kHigh) : kLow);
}

// Writes saturated_sum() of one element.
using WriteQuantized = void (*)(double quotient, double zero_point, void* data, int64_t index);

template <typename T>
void write_quantized(double quotient, double zero_point, void* data, int64_t index) {
  static_cast<T*>(data)[index] = saturated_sum<T>(quotient, zero_point);
}

// Null for a type that quantised operators do not make.
inline WriteQuantized quantized_writer(DataType type) {
  using Types = TypeList<int8_t, uint8_t, int16_t, uint16_t>;
  // `select` asks its function for a float first, to know the type of its result.
  return select(Types(), type, []<typename T>() -> WriteQuantized {
    if constexpr (std::is_integral_v<T>) {
      return &write_quantized<T>;
    } else {
      return nullptr;
    }
  });
}

}  // namespace tenon::cpu::ref
