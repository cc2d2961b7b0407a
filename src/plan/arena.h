// Assigns offsets in one arena to buffers with lifetimes. Buffers with overlapping lifetimes do not overlap in memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "base/status.h"

namespace tenon {

inline constexpr size_t kArenaAlignment = 64;

struct ArenaBuffer {
  size_t size_bytes = 0;
  int32_t first = 0;  // alive in the steps [first, last]
  int32_t last = 0;
  size_t offset_bytes = 0;  // set by pack_arena, a multiple of the alignment
};

// Places the buffers greedily, the largest first, each in the tightest gap that holds it. Returns the arena's
// size. Deterministic. Errors: kResourceExhausted when a size or sum overflows. Offsets are multiples of `alignment`,
// and of kArenaAlignment.
Result<size_t> pack_arena(std::span<ArenaBuffer> buffers, size_t alignment = kArenaAlignment);

}  // namespace tenon
