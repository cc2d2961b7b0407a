#include "plan/arena.h"

#include <algorithm>
#include <limits>
#include <numeric>
#include <vector>

#include "base/checked.h"

namespace tenon {

Result<size_t> pack_arena(std::span<ArenaBuffer> buffers, size_t alignment) {
  const size_t granule = std::max(alignment, kArenaAlignment);
  std::vector<size_t> rounded(buffers.size());
  for (size_t i = 0; i < buffers.size(); ++i) {
    const auto padded = checked_add(buffers[i].size_bytes, granule - 1);
    if (!padded) return resource_exhausted("A tensor of {} bytes does not fit into an arena.", buffers[i].size_bytes);
    rounded[i] = *padded / granule * granule;
  }
  std::vector<size_t> order(buffers.size());
  std::iota(order.begin(), order.end(), size_t{0});
  // The same plan every time: buffers of one size in the order they came.
  std::sort(order.begin(), order.end(),
            [&](size_t a, size_t b) { return rounded[a] != rounded[b] ? rounded[a] > rounded[b] : a < b; });

  size_t arena_bytes = 0;
  std::vector<size_t> placed;  // sorted by offset
  placed.reserve(buffers.size());
  for (size_t index : order) {
    ArenaBuffer& buffer = buffers[index];
    if (rounded[index] == 0) continue;
    size_t best_offset = 0;
    size_t best_gap = std::numeric_limits<size_t>::max();
    size_t end = 0;  // of the buffers alive at the same time, so far
    for (size_t other_index : placed) {
      const ArenaBuffer& other = buffers[other_index];
      if (other.last < buffer.first || buffer.last < other.first) continue;
      if (other.offset_bytes > end) {
        const size_t gap = other.offset_bytes - end;
        if (gap >= rounded[index] && gap < best_gap) {
          best_gap = gap;
          best_offset = end;
        }
      }
      end = std::max(end, other.offset_bytes + rounded[other_index]);
    }
    buffer.offset_bytes = best_gap == std::numeric_limits<size_t>::max() ? end : best_offset;
    const auto top = checked_add(buffer.offset_bytes, rounded[index]);
    if (!top || *top > static_cast<size_t>(std::numeric_limits<int64_t>::max())) {
      return resource_exhausted("The arena would need more than {} bytes plus {} bytes.", buffer.offset_bytes,
                                rounded[index]);
    }
    arena_bytes = std::max(arena_bytes, *top);
    const auto at = std::upper_bound(placed.begin(), placed.end(), index, [&](size_t a, size_t b) {
      return buffers[a].offset_bytes < buffers[b].offset_bytes;
    });
    placed.insert(at, index);
  }
  return arena_bytes;
}

}  // namespace tenon
