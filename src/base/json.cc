#include "base/json.h"

#include "base/format.h"
#include "base/utf8.h"

namespace tenon {

std::string json_string(std::string_view text) {
  std::string out = "\"";
  for (size_t i = 0; i < text.size();) {
    const auto byte = static_cast<unsigned char>(text[i]);
    if (byte >= 0x80) {
      const size_t length = utf8_length(text.substr(i));
      if (length == 0) {
        out += "\\ufffd";
        ++i;
      } else {
        out += text.substr(i, length);
        i += length;
      }
      continue;
    }
    ++i;
    if (byte == '"' || byte == '\\') {
      out += '\\';
      out += static_cast<char>(byte);
    } else if (byte < 0x20 || byte == 0x7f) {
      out += format("\\u{:04x}", static_cast<unsigned>(byte));
    } else {
      out += static_cast<char>(byte);
    }
  }
  return out + '"';
}

}  // namespace tenon
