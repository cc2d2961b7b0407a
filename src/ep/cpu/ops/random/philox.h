// Random bits as a function of a key and a counter (Philox 4x32 with 10 rounds): any part of a tensor can be drawn by
// any thread, and the numbers do not depend on how the work is cut.
#pragma once

#include <array>
#include <cstdint>

namespace tenon::cpu {

struct PhiloxKey {
  uint32_t words[2] = {0, 0};
};

// Blocks of a chunk; each has four words.
inline constexpr int64_t kPhiloxBlocks = 256;
inline constexpr int64_t kPhiloxWords = 4 * kPhiloxBlocks;
using PhiloxChunk = std::array<uint32_t, kPhiloxWords>;

// The words of chunk `chunk` of the stream `stream`.
void philox_chunk(PhiloxKey key, uint64_t stream, uint64_t chunk, PhiloxChunk& words);

}  // namespace tenon::cpu
