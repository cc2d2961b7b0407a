#include "ep/cpu/ops/text/case_change.h"

#include <clocale>
#include <cwctype>

#include "ep/cpu/ops/text/code_points.h"

namespace tenon::cpu::ref {

namespace {

// The table of Unicode that glibc has without an installed locale. Kept for the life of the process.
locale_t unicode_locale() {
  static const locale_t locale = newlocale(LC_CTYPE_MASK, "C.UTF-8", static_cast<locale_t>(nullptr));
  return locale;
}

char32_t changed(char32_t code, CaseChange change) {
  if (code < 0x80) {
    if (change == CaseChange::kLower) return code >= 'A' && code <= 'Z' ? code + ('a' - 'A') : code;
    return code >= 'a' && code <= 'z' ? code - ('a' - 'A') : code;
  }
  const locale_t locale = unicode_locale();
  if (locale == nullptr) return code;
  const auto wide = static_cast<wint_t>(code);
  return static_cast<char32_t>(change == CaseChange::kLower ? towlower_l(wide, locale) : towupper_l(wide, locale));
}

}  // namespace

std::string change_case(std::string_view text, CaseChange change) {
  if (change == CaseChange::kNone) return std::string(text);
  // Bytes of ASCII change where they are.
  std::string result(text);
  size_t ascii = 0;
  for (; ascii < result.size() && static_cast<unsigned char>(result[ascii]) < 0x80; ++ascii)
    result[ascii] = static_cast<char>(changed(static_cast<unsigned char>(result[ascii]), change));
  result.resize(ascii);
  text.remove_prefix(ascii);
  while (!text.empty()) {
    const CodePoint point = next_code_point(text);
    if (point.valid) {
      append_utf8(result, changed(point.code, change));
    } else {
      result += text[0];
    }
    text.remove_prefix(point.length);
  }
  return result;
}

}  // namespace tenon::cpu::ref
