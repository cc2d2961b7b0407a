// Elements of quantised tensors, whatever their type, for the reference kernels.
#pragma once

#include <algorithm>
#include <cmath>

#include "ep/cpu/ops/reference_kernel.h"
#include "ep/cpu/ops/small_types.h"

namespace tenon::cpu::ref {

// An element as a double; every type here fits into one.
using ReadElement = double (*)(const void* data, int64_t index);

template <typename T>
double read_element(const void* data, int64_t index) {
  return static_cast<double>(static_cast<Compute<T>>(static_cast<const T*>(data)[index]));
}

// Of a type of at most 8 bits that C++ lacks, by its code.
template <DataType type>
double read_code(const void* data, int64_t index) {
  return static_cast<double>(small_values(type)[static_cast<const uint8_t*>(data)[index]]);
}

#define TENON_SMALL_TYPES(X) \
  X(kFloat8E4M3FN)           \
  X(kFloat8E4M3FNUZ)         \
  X(kFloat8E5M2)             \
  X(kFloat8E5M2FNUZ) X(kFloat8E8M0) X(kUint4) X(kInt4) X(kUint2) X(kInt2) X(kFloat4E2M1) X(kFloat6E2M3) X(kFloat6E3M2)

// Null for a type that quantised operators do not take. Elements of less than a byte are read by their codes.
inline ReadElement element_reader(DataType type) {
  using Types = TypeList<float, Float16, BFloat16, int8_t, uint8_t, int16_t, uint16_t, int32_t>;
  switch (type) {
#define TENON_READER_(name) \
  case DataType::name:      \
    return &read_code<DataType::name>;
    TENON_SMALL_TYPES(TENON_READER_)
#undef TENON_READER_
    default:
      return select(Types(), type, []<typename T>() -> ReadElement { return &read_element<T>; });
  }
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

// The code of a type of at most 8 bits that C++ lacks. Its integers saturate as the others do.
template <DataType type, bool saturate>
void write_code(double quotient, double zero_point, void* data, int64_t index) {
  auto* const code = static_cast<uint8_t*>(data) + index;
  if constexpr (has_type(kSmallIntSet, type)) {
    constexpr int kBits = type == DataType::kUint4 || type == DataType::kInt4 ? 4 : 2;
    constexpr int kLow = type == DataType::kInt4 || type == DataType::kInt2 ? -(1 << (kBits - 1)) : 0;
    const double sum = std::nearbyint(quotient) + zero_point;
    const double highest = kLow + (1 << kBits) - 1;
    *code = static_cast<uint8_t>(static_cast<int>(sum > kLow ? std::min(sum, highest) : kLow) & ((1 << kBits) - 1));
  } else {
    *code = small_code(type, quotient + zero_point, {.saturate = saturate, .mode = CastRounding::Mode::kNearest});
  }
}

// Null for a type that quantised operators do not make. `saturate` is that of floats.
inline WriteQuantized quantized_writer(DataType type, bool saturate = true) {
  using Types = TypeList<int8_t, uint8_t, int16_t, uint16_t>;
  switch (type) {
#define TENON_WRITER_(name) \
  case DataType::name:      \
    return saturate ? &write_code<DataType::name, true> : &write_code<DataType::name, false>;
    TENON_SMALL_TYPES(TENON_WRITER_)
#undef TENON_WRITER_
    default:
      // `select` asks its function for a float first, to know the type of its result.
      return select(Types(), type, []<typename T>() -> WriteQuantized {
        if constexpr (std::is_integral_v<T>) {
          return &write_quantized<T>;
        } else {
          return nullptr;
        }
      });
  }
}

}  // namespace tenon::cpu::ref
