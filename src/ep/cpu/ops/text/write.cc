#include "ep/cpu/ops/text/write.h"

#include <algorithm>
#include <array>

namespace tenon::cpu::ref {

namespace {

// "000102...99"
constexpr std::array<char, 200> kPairs = [] {
  std::array<char, 200> pairs{};
  for (size_t i = 0; i < 100; ++i) {
    pairs[2 * i] = static_cast<char>('0' + i / 10);
    pairs[2 * i + 1] = static_cast<char>('0' + i % 10);
  }
  return pairs;
}();

}  // namespace

void join_texts(std::string_view a, std::string_view b, std::string& text) {
  // One assignment costs less than two additions.
  std::array<char, 128> joined;
  if (a.size() + b.size() <= joined.size()) {
    std::copy(b.begin(), b.end(), std::copy(a.begin(), a.end(), joined.begin()));
    text.assign(joined.data(), a.size() + b.size());
    return;
  }
  text.clear();
  text.reserve(a.size() + b.size());
  text.append(a).append(b);
}

void write_digits(uint64_t magnitude, bool negative, std::string& text) {
  std::array<char, 24> digits;
  char* const end = digits.data() + digits.size();
  char* at = end;
  for (; magnitude >= 100; magnitude /= 100) {
    at -= 2;
    std::copy_n(kPairs.data() + 2 * (magnitude % 100), 2, at);
  }
  if (magnitude >= 10) {
    at -= 2;
    std::copy_n(kPairs.data() + 2 * magnitude, 2, at);
  } else {
    *--at = static_cast<char>('0' + magnitude);
  }
  if (negative) *--at = '-';
  text.assign(at, end);
}

}  // namespace tenon::cpu::ref
