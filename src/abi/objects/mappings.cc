#include "abi/objects/mappings.h"

#include <algorithm>
#include <cinttypes>
#include <cstdio>
#include <memory>
#include <vector>

#include "base/guarded.h"

namespace tenon::abi {

namespace {

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

}  // namespace tenon::abi
