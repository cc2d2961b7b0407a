// Adds and multiplies sizes that callers, models or plugins give: nullopt on overflow, never a wrapped number.
#pragma once

#include <cstdint>
#include <iterator>
#include <optional>
#include <type_traits>
#include <utility>

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

// The product of `sizes`, none of them negative: nullopt when it overflows, 0 where one is 0, whatever the others are.
template <typename Sizes, typename T = std::remove_cvref_t<decltype(*std::begin(std::declval<const Sizes&>()))>>
[[nodiscard]] std::optional<T> checked_product(const Sizes& sizes) {
  std::optional<T> product = T{1};
  for (const T size : sizes) {
    if (size == 0) return T{0};
    if (product) product = checked_mul(*product, size);
  }
  return product;
}

}  // namespace tenon
