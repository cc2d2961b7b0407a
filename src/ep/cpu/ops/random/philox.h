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

// The words of chunk `chunk` of the stream `stream`. The loop runs over blocks, so that compilers vectorise it.
inline void philox_chunk(PhiloxKey key, uint64_t stream, uint64_t chunk, PhiloxChunk& words) {
  uint32_t* const out[4] = {words.data(), words.data() + kPhiloxBlocks, words.data() + 2 * kPhiloxBlocks,
                            words.data() + 3 * kPhiloxBlocks};
  for (int64_t b = 0; b < kPhiloxBlocks; ++b) {
    out[0][b] = static_cast<uint32_t>(b);
    out[1][b] = static_cast<uint32_t>(chunk);
    out[2][b] = static_cast<uint32_t>(stream) ^ static_cast<uint32_t>(chunk >> 32);
    out[3][b] = static_cast<uint32_t>(stream >> 32);
  }
  uint32_t k0 = key.words[0], k1 = key.words[1];
  for (int round = 0; round < 10; ++round) {
    for (int64_t b = 0; b < kPhiloxBlocks; ++b) {
      const uint64_t p0 = uint64_t{0xD2511F53} * out[0][b], p1 = uint64_t{0xCD9E8D57} * out[2][b];
      const uint32_t x0 = static_cast<uint32_t>(p1 >> 32) ^ out[1][b] ^ k0, x1 = static_cast<uint32_t>(p1);
      const uint32_t x2 = static_cast<uint32_t>(p0 >> 32) ^ out[3][b] ^ k1, x3 = static_cast<uint32_t>(p0);
      out[0][b] = x0, out[1][b] = x1, out[2][b] = x2, out[3][b] = x3;
    }
    k0 += 0x9E3779B9;
    k1 += 0xBB67AE85;
  }
}

}  // namespace tenon::cpu
