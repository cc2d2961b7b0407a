// Sums and products of sizes that come from outside: nullopt on overflow, never a wrapped number.
#pragma once

#include <cstdint>
#include <optional>

namespace tenon {

template <typename T>
[[nodiscard]] std::optional<T> checked_add(T a, T b) {
  T sum;
  if (__builtin_add_overflow(a, b, &sum)) return std::nullopt;
  return sum;
}

template <typename T>
[[nodiscard]] std::optional<T> checked_mul(T a, T b) {
  T product;
  if (__builtin_mul_overflow(a, b, &product)) return std::nullopt;
  return product;
}

}  // namespace tenon
