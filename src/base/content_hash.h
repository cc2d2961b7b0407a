// The hash of bytes, as a name for them: equal bytes have equal names, and others differ but for an accident of about
// one in 2^64. It stops nobody who wants to make two of one name.
//
// Threads: pure functions.
#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace tenon {

struct ContentHash {
  uint64_t first = 0, second = 0;

  auto operator<=>(const ContentHash&) const = default;
  // 32 hexadecimal digits.
  std::string to_string() const;
};

// The same on every machine of one byte order. Reads about as fast as memory gives them.
ContentHash content_hash(std::span<const std::byte> bytes);
inline ContentHash content_hash(std::string_view text) { return content_hash(std::as_bytes(std::span(text))); }

}  // namespace tenon
