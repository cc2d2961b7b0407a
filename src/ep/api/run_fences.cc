#include "ep/api/run_fences.h"

#include <charconv>
#include <cstdint>
#include <string_view>

namespace tenon {

namespace {

template <typename Number>
bool read_number(std::string_view text, Number* out) {
  int base = 10;
  if (text.starts_with("0x") || text.starts_with("0X")) {
    text.remove_prefix(2);
    base = 16;
  }
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), *out, base);
  return !text.empty() && error == std::errc() && end == text.data() + text.size();
}

std::string_view trimmed(std::string_view text) {
  while (text.starts_with(' ')) text.remove_prefix(1);
  while (text.ends_with(' ')) text.remove_suffix(1);
  return text;
}

}  // namespace

Result<std::vector<RunFence>> parse_run_fences(const char* key, const char* text) {
  std::vector<RunFence> fences;
  std::string_view rest = text != nullptr ? text : "";
  while (!trimmed(rest).empty()) {
    const size_t comma = rest.find(',');
    const std::string_view part = trimmed(rest.substr(0, comma));
    rest = comma == std::string_view::npos ? std::string_view() : rest.substr(comma + 1);
    const size_t colon = part.find(':');
    uintptr_t semaphore = 0;
    uint64_t value = 0;
    TENON_INVALID_IF(colon == std::string_view::npos || !read_number(part.substr(0, colon), &semaphore) ||
                         !read_number(part.substr(colon + 1), &value) || semaphore == 0,
                     "Run entry \"{}\" has \"{}\" in it, which is no HANDLE:VALUE of a semaphore.", key,
                     part.substr(0, 64));
    TENON_INVALID_IF(fences.size() == kMostRunFences, "Run entry \"{}\" names more than {} fences.", key,
                     kMostRunFences);
    fences.push_back({reinterpret_cast<OrtExternalSemaphoreHandle*>(semaphore), value});
  }
  return fences;
}

}  // namespace tenon
