// Loops that write many short strings: most of what their operators do.
#pragma once

#include <concepts>
#include <cstdint>
#include <string>
#include <string_view>
#include <type_traits>

namespace tenon::cpu::ref {

// `text` becomes `a` and `b`; it is no part of them.
void join_texts(std::string_view a, std::string_view b, std::string& text);

// `text` becomes the decimal digits of a number, with a sign if it is negative.
void write_digits(uint64_t magnitude, bool negative, std::string& text);
template <std::integral T>
void write_integer(T value, std::string& text) {
  const bool negative = value < 0;
  const auto bits =
      static_cast<uint64_t>(static_cast<std::conditional_t<std::is_signed_v<T>, int64_t, uint64_t>>(value));
  write_digits(negative ? 0 - bits : bits, negative, text);
}

}  // namespace tenon::cpu::ref
