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

// The letters of the other case are turned; compilers do it with vectors.
void change_ascii(char* text, size_t size, CaseChange change) {
  const auto first = static_cast<unsigned char>(change == CaseChange::kLower ? 'A' : 'a');
  for (size_t i = 0; i < size; ++i) {
    const auto byte = static_cast<unsigned char>(text[i]);
    const auto place = static_cast<unsigned char>(byte - first);
    text[i] = static_cast<char>(place < 26 ? byte ^ 0x20 : byte);
  }
}

char32_t changed(char32_t code, CaseChange change) {
  const locale_t locale = unicode_locale();
  if (locale == nullptr) return code;
  const auto wide = static_cast<wint_t>(code);
  return static_cast<char32_t>(change == CaseChange::kLower ? towlower_l(wide, locale) : towupper_l(wide, locale));
}

}  // namespace

void change_case(std::string_view text, CaseChange change, std::string& result) {
  result.assign(text);
  if (change == CaseChange::kNone) return;
  unsigned char all = 0;
  for (char byte : text) all |= static_cast<unsigned char>(byte);
  if (all < 0x80) return change_ascii(result.data(), result.size(), change);
  result.clear();
  while (!text.empty()) {
    const CodePoint point = next_code_point(text);
    if (!point.valid || point.code < 0x80) {
      result += text[0];
      if (point.valid) change_ascii(&result.back(), 1, change);
    } else {
      append_utf8(result, changed(point.code, change));
    }
    text.remove_prefix(point.length);
  }
}

}  // namespace tenon::cpu::ref
