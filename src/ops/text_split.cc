#include <algorithm>
#include <bit>
#include <cstring>

#include "ops/text.h"

namespace tenon {

namespace {

// " \t\n\v\f\r"
bool is_blank(char c) { return c == ' ' || (c >= '\t' && c <= '\r'); }

constexpr uint64_t each_byte(uint64_t byte) { return byte * 0x0101010101010101; }

// Bit i: byte i is a blank.
uint64_t blanks_of_8(const char* text) {
  uint64_t bytes = 0;
  std::memcpy(&bytes, text, sizeof(bytes));
  const uint64_t low = bytes & each_byte(0x7F);
  const auto at_least = [&](uint64_t byte) { return low + each_byte(0x80 - byte); };  // in the highest bit of each byte
  const uint64_t is = (at_least(' ') & ~at_least(' ' + 1)) | (at_least('\t') & ~at_least('\r' + 1));
  return ((is & ~bytes & each_byte(0x80)) >> 7) * 0x0102040810204080 >> 56;
}

// The same of up to 64 bytes; what is behind them counts as blank.
uint64_t blanks_of(std::string_view text) {
  uint64_t blanks = text.size() < 64 ? ~uint64_t{0} << text.size() : 0;
  if (text.size() < 8) {
    for (size_t i = 0; i < text.size(); ++i) blanks |= uint64_t{is_blank(text[i])} << i;
    return blanks;
  }
  for (size_t i = 0; i + 8 <= text.size(); i += 8) blanks |= blanks_of_8(text.data() + i) << i;
  const size_t last = text.size() - 8;
  return blanks | blanks_of_8(text.data() + last) << last;
}

// Short texts, which most are, through masks: a search for each part mispredicts where it ends.
void split_short(std::string_view text, int64_t most_splits, std::vector<std::string_view>& parts) {
  const uint64_t blanks = blanks_of(text);
  uint64_t words = ~blanks;
  for (int64_t splits = 0; words != 0; ++splits) {
    const int begin = std::countr_zero(words);
    const uint64_t ends = blanks >> begin;
    // The last part keeps the blanks within it.
    const int size = splits >= most_splits ? 64 - std::countl_zero(words) - begin
                     : ends == 0           ? 64 - begin
                                           : std::countr_zero(ends);
    parts.push_back(text.substr(begin, size));
    if (splits >= most_splits || begin + size == 64) return;
    words &= ~uint64_t{0} << (begin + size);
  }
}

void split_at_blanks(std::string_view text, int64_t most_splits, std::vector<std::string_view>& parts) {
  if (text.size() <= 64) return split_short(text, most_splits, parts);
  const char* at = text.data();
  const char* end = at + text.size();
  while (end > at && is_blank(end[-1])) --end;
  for (int64_t splits = 0;; ++splits) {
    while (at < end && is_blank(*at)) ++at;
    if (at == end) return;
    const char* const begin = at;
    at = splits >= most_splits ? end : std::find_if(at, end, is_blank);
    parts.emplace_back(begin, static_cast<size_t>(at - begin));
  }
}

}  // namespace

void split_text(std::string_view text, const StringSplitDesc& desc, std::vector<std::string_view>& parts) {
  const int64_t most_splits = desc.most_splits < 0 ? INT64_MAX : desc.most_splits;
  if (desc.delimiter.empty()) return split_at_blanks(text, most_splits, parts);
  for (int64_t splits = 0;; ++splits) {
    const size_t end = splits >= most_splits ? std::string_view::npos : text.find(desc.delimiter);
    parts.push_back(text.substr(0, end));
    if (end == std::string_view::npos) return;
    text.remove_prefix(end + desc.delimiter.size());
  }
}

}  // namespace tenon
