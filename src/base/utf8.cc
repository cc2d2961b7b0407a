#include "base/utf8.h"

namespace tenon {

size_t utf8_length(std::string_view text) {
  const auto byte = [&](size_t i) { return static_cast<unsigned char>(text[i]); };
  const auto follows = [&](size_t i) { return i < text.size() && (byte(i) & 0xC0) == 0x80; };
  const unsigned char lead = byte(0);
  if (lead >= 0xC2 && lead <= 0xDF && follows(1)) return 2;
  if ((lead & 0xF0) == 0xE0 && follows(1) && follows(2)) {
    const unsigned code = (lead & 0x0Fu) << 12 | (byte(1) & 0x3Fu) << 6;
    return code >= 0x800 && (code < 0xD800 || code > 0xDFFF) ? 3 : 0;
  }
  if (lead >= 0xF0 && lead <= 0xF4 && follows(1) && follows(2) && follows(3)) {
    const unsigned code = (lead & 0x07u) << 18 | (byte(1) & 0x3Fu) << 12;
    return code >= 0x10000 && code <= 0x10FFFF ? 4 : 0;
  }
  return 0;
}

}  // namespace tenon
