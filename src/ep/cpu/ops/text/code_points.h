// Code points of UTF-8 text, one after the other.
#pragma once

#include <string>
#include <string_view>

#include "base/utf8.h"

namespace tenon::cpu::ref {

struct CodePoint {
  char32_t code = 0xFFFD;
  size_t length = 1;  // in bytes
  bool valid = false;
};

// Of text that is not empty. A byte that begins no sequence is one of its own, not valid.
inline CodePoint next_code_point(std::string_view text) {
  const auto byte = [&](size_t i) { return static_cast<unsigned char>(text[i]); };
  if (byte(0) < 0x80) return {byte(0), 1, true};
  const size_t length = utf8_length(text);
  if (length < 2 || length > 4) return {};
  char32_t code = byte(0) & (0x7Fu >> length);
  for (size_t i = 1; i < length; ++i) code = code << 6 | (byte(i) & 0x3Fu);
  return {code, length, true};
}

inline void append_utf8(std::string& text, char32_t code) {
  const auto add = [&](char32_t byte) { text += static_cast<char>(byte); };
  if (code < 0x80) return add(code);
  if (code < 0x800) {
    add(0xC0 | code >> 6);
  } else if (code < 0x10000) {
    add(0xE0 | code >> 12);
    add(0x80 | (code >> 6 & 0x3F));
  } else {
    add(0xF0 | code >> 18);
    add(0x80 | (code >> 12 & 0x3F));
    add(0x80 | (code >> 6 & 0x3F));
  }
  add(0x80 | (code & 0x3F));
}

}  // namespace tenon::cpu::ref
