#include <tenon/node_values.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/status.h"
#include "device/memory_space.h"
#include "ep/cpu/ops/reference_types.h"

namespace tenon {

namespace {

using cpu::ref::AllTypes;

constexpr double kInfinite = std::numeric_limits<double>::infinity();

// 64-bit integers do not fit into a double: they are equal or not.
template <typename T>
double error_of(T value, T reference) {
  if (value == reference) return 0;
  const auto a = static_cast<double>(value), b = static_cast<double>(reference);
  if (std::isnan(a) && std::isnan(b)) return 0;
  if (!std::isfinite(a) || !std::isfinite(b)) return kInfinite;
  return std::max(std::abs(a - b), std::numeric_limits<double>::denorm_min());
}

template <typename T>
double largest_of(const T* data, int64_t count) {
  double largest = 0;
  for (int64_t i = 0; i < count; ++i) {
    const double magnitude = std::abs(static_cast<double>(data[i]));
    if (std::isfinite(magnitude)) largest = std::max(largest, magnitude);
  }
  return largest;
}

template <typename T>
ValueDifference compare(const void* values, const void* references, int64_t count, DataType type,
                        const Tolerance* tolerance) {
  const T* const value = static_cast<const T*>(values);
  const T* const reference = static_cast<const T*>(references);
  ValueDifference found{.elements = count};
  found.tolerance = tolerance != nullptr ? *tolerance : default_tolerance(type, largest_of(reference, count));
  for (int64_t i = 0; i < count; ++i) {
    const double error = error_of<T>(value[i], reference[i]);
    const auto magnitude = std::abs(static_cast<double>(reference[i]));
    const double allowed = found.tolerance.absolute + (magnitude > 0 ? found.tolerance.relative * magnitude : 0.0);
    // An infinite error is never allowed, whatever the reference allows.
    if (error > 0 && (std::isinf(error) || !(error <= allowed))) ++found.differing;
    if (found.index >= 0 && error <= found.error) continue;
    found.index = i;
    found.value = static_cast<double>(value[i]);
    found.reference = static_cast<double>(reference[i]);
    found.error = error;
  }
  if (found.error > 0)
    found.relative_error = found.reference != 0 ? found.error / std::abs(found.reference) : kInfinite;
  return found;
}

}  // namespace

Tolerance default_tolerance(DataType type, double largest) {
  double relative = 0;
  switch (type) {
    case DataType::kFloat:
      relative = 1e-4;
      break;
    case DataType::kDouble:
      relative = 1e-9;
      break;
    case DataType::kFloat16:
      relative = 1e-2;
      break;
    case DataType::kBfloat16:
      relative = 4e-2;
      break;
    default:
      break;
  }
  return {.relative = relative, .absolute = relative * largest};
}

Result<ValueDifference> compare_tensors(const Tensor& value, const Tensor& reference, const Tolerance* tolerance) {
  TENON_INVALID_IF(!value.defined() || !reference.defined(), "A tensor to compare is undefined.");
  TENON_INVALID_IF(value.type() != reference.type() || value.shape() != reference.shape(),
                   "A tensor {}{} cannot be compared with {}{}.", data_type_name(value.type()),
                   value.shape().to_string(), data_type_name(reference.type()), reference.shape().to_string());
  for (const Tensor* tensor : {&value, &reference})
    TENON_INVALID_IF(!host_can_address(tensor->space()), "A tensor to compare is in {}, which the host cannot read.",
                     tensor->space().to_string());
  const int64_t count = value.shape().element_count();
  const DataType type = value.type();
  const bool has_numbers = (cpu::ref::type_set(AllTypes()) >> static_cast<int>(type) & 1) != 0;
  if (!has_numbers)
    return compare<uint8_t>(value.data(), reference.data(), static_cast<int64_t>(value.size_bytes()), DataType::kUint8,
                            tolerance);
  return cpu::ref::select(AllTypes(), type, [&]<typename T>() {
    return compare<T>(value.data(), reference.data(), count, type, tolerance);
  });
}

}  // namespace tenon
