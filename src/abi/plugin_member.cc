#include "abi/plugin_member.h"

#include <algorithm>
#include <cinttypes>
#include <cstdio>
#include <memory>
#include <vector>

#include "base/guarded.h"

namespace tenon::abi {

namespace {

constexpr size_t kLongestText = 1 << 16;

struct Mapping {
  uintptr_t start = 0;
  uintptr_t end = 0;
  bool readable = false;
  bool code = false;
};

std::vector<Mapping> read_mappings() {
  std::vector<Mapping> mappings;
  const std::unique_ptr<FILE, int (*)(FILE*)> file(std::fopen("/proc/self/maps", "re"), &std::fclose);
  if (!file) return mappings;
  char line[4352];  // a path and the columns before it
  // Read with known_mappings() locked, so that forget_mappings() waits and nothing older than it is kept.
  // NOLINTNEXTLINE(clang-analyzer-unix.BlockInCriticalSection)
  while (std::fgets(line, sizeof line, file.get()) != nullptr) {
    Mapping mapping;
    char access[5] = {};
    if (std::sscanf(line, "%" SCNxPTR "-%" SCNxPTR " %4s", &mapping.start, &mapping.end, access) != 3) continue;
    mapping.readable = access[0] == 'r';
    mapping.code = access[2] == 'x';
    mappings.push_back(mapping);
  }
  return mappings;
}

Guarded<std::vector<Mapping>>& known_mappings() {
  static Guarded<std::vector<Mapping>> mappings;
  return mappings;
}

// All of [start, end) lies in mappings that `fits` accepts. The system lists them in the order of their addresses.
template <typename Fits>
bool covered(const std::vector<Mapping>& mappings, uintptr_t start, uintptr_t end, Fits fits) {
  auto at = std::upper_bound(mappings.begin(), mappings.end(), start,
                             [](uintptr_t address, const Mapping& mapping) { return address < mapping.end; });
  for (; at != mappings.end() && at->start <= start && fits(*at); ++at) {
    if (at->end >= end) return true;
    start = at->end;
  }
  return false;
}

template <typename Fits>
bool look_up(uintptr_t start, uintptr_t end, Fits fits) {
  if (end < start) return false;
  auto mappings = known_mappings().lock();
  if (covered(*mappings, start, end, fits)) return true;
  *mappings = read_mappings();
  return mappings->empty() || covered(*mappings, start, end, fits);
}

}  // namespace

bool is_readable(const void* address, size_t size_bytes) {
  const auto start = reinterpret_cast<uintptr_t>(address);
  return look_up(start, start + size_bytes, [](const Mapping& mapping) { return mapping.readable; });
}

bool is_code(const void* address) {
  const auto start = reinterpret_cast<uintptr_t>(address);
  return look_up(start, start + 1, [](const Mapping& mapping) { return mapping.code; });
}

void forget_mappings() { known_mappings().lock()->clear(); }

Status check_object(const std::string& who, const char* kind, const void* object, const char* from) {
  if (object == nullptr) return device_error("{}: {} succeeds and gives a null {}.", who, from, kind);
  if (reinterpret_cast<uintptr_t>(object) % alignof(void*) != 0 || !is_readable(object, sizeof(uint32_t)))
    return device_error("{}: {} gives the {} {}, which is no memory.", who, from, kind, object);
  return {};
}

Status take_status(const std::string& who, const char* member, OrtStatus* status) {
  if (status == nullptr) return {};
  if (!is_readable(status, sizeof(OrtStatus)))
    return device_error("{}: {} gives a status at {}, which is no memory.", who, member,
                        static_cast<const void*>(status));
  const OrtErrorCode code = status->code;
  Status failed = from_ort(status).with_context(format("in {} of {}", member, who));
  remember_code(failed, code);
  return failed;
}

Status thrown(const std::string& who, const char* member, const char* what) {
  if (what == nullptr) return device_error("{}: {} throws something that is no std::exception.", who, member);
  return device_error("{}: {} throws an exception: {}.", who, member, what);
}

Result<std::string> checked_text(const std::string& who, const char* member, const char* text) {
  if (text == nullptr) return device_error("{}: {} gives null.", who, member);
  size_t length = 0;
  while (length < kLongestText) {
    // To the end of the page: what is readable there is readable as a whole.
    const size_t rest = 4096 - (reinterpret_cast<uintptr_t>(text) + length) % 4096;
    if (!is_readable(text + length, rest)) return device_error("{}: {} gives text that is no memory.", who, member);
    const void* end = std::memchr(text + length, 0, rest);
    if (end != nullptr) return std::string(text, static_cast<const char*>(end));
    length += rest;
  }
  return device_error("{}: {} gives text of more than {} bytes.", who, member, kLongestText);
}

}  // namespace tenon::abi
