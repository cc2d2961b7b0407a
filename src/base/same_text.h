// Compares names without regard to case, as ONNX Runtime does for some of them.
#pragma once

#include <algorithm>
#include <string_view>

namespace tenon {

// Equal where the letters A to Z count as a to z; other bytes, UTF-8 included, are compared as they are.
inline bool same_ignoring_case(std::string_view a, std::string_view b) {
  const auto lower = [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; };
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [&](char x, char y) { return lower(x) == lower(y); });
}

}  // namespace tenon
