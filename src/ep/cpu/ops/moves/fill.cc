#include "ep/cpu/ops/moves/fill.h"

#include <cstring>

#include "ep/cpu/simd/interleave.h"

namespace tenon::cpu::nn {

void fill_elements(void* to, const void* element, size_t element_bytes, int64_t count) {
  if (count <= 0) return;
  auto* const out = static_cast<std::byte*>(to);
  const auto* const from = static_cast<const std::byte*>(element);
  const size_t all = static_cast<size_t>(count) * element_bytes;
  if (std::memcmp(from, from + 1, element_bytes - 1) == 0) {
    std::memset(out, static_cast<int>(from[0]), all);
    return;
  }
  constexpr size_t kPattern = 16;
  uint8_t pattern[kPattern];
  for (size_t i = 0; i < kPattern; i += element_bytes) std::memcpy(pattern + i, from, element_bytes);
  interleave_table().fill(pattern, reinterpret_cast<uint8_t*>(out), static_cast<int64_t>(all));
}

}  // namespace tenon::cpu::nn
