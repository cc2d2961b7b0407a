#include "ep/api/run_fences.h"

#include <charconv>

#include "base/format.h"

namespace tenon {

namespace {

// More than any run has; keeps what a bad entry costs small.
constexpr size_t kMaxFences = 64;

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

std::string run_fences_text(std::span<const RunFenceEntry> fences) {
  std::string text;
  for (const RunFenceEntry& fence : fences)
    text += format("{}{:#x}:{}", text.empty() ? "" : ",", fence.semaphore, fence.value);
  return text;
}

Result<std::vector<RunFenceEntry>> parse_run_fences(const char* key, const char* text) {
  std::vector<RunFenceEntry> fences;
  std::string_view rest = text != nullptr ? text : "";
  while (!trimmed(rest).empty()) {
    const size_t comma = rest.find(',');
    const std::string_view part = trimmed(rest.substr(0, comma));
    rest = comma == std::string_view::npos ? std::string_view() : rest.substr(comma + 1);
    const size_t colon = part.find(':');
    RunFenceEntry fence;
    TENON_INVALID_IF(colon == std::string_view::npos || !read_number(part.substr(0, colon), &fence.semaphore) ||
                         !read_number(part.substr(colon + 1), &fence.value) || fence.semaphore == 0,
                     "Run entry \"{}\" has \"{}\" in it, which is no HANDLE:VALUE of a semaphore.", key,
                     part.substr(0, 64));
    TENON_INVALID_IF(fences.size() == kMaxFences, "Run entry \"{}\" names more than {} fences.", key, kMaxFences);
    fences.push_back(fence);
  }
  return fences;
}

}  // namespace tenon
