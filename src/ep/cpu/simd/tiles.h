// AMX tiles of 16 rows by 64 bytes, as instructions: g++ 12's own macros leave memory out of what they read, so stores
// into a tile's memory could move behind its load. Only for simd/*.cc (see isa.h).
#pragma once

#include <cstdint>

#define TENON_TILE_ZERO(tile) asm volatile("tilezero %%tmm" #tile ::: "memory")
#define TENON_TILE_LOAD(tile, from, stride) \
  asm volatile("tileloadd (%0,%1,1), %%tmm" #tile ::"r"(from), "r"(static_cast<int64_t>(stride)) : "memory")
#define TENON_TILE_STORE(tile, to, stride) \
  asm volatile("tilestored %%tmm" #tile ", (%0,%1,1)" ::"r"(to), "r"(static_cast<int64_t>(stride)) : "memory")
// sum += a * b: dot products of four bytes, unsigned by signed, or of two bfloat16.
#define TENON_TILE_DOT_BYTES(sum, a, b) asm volatile("tdpbusd %%tmm" #b ", %%tmm" #a ", %%tmm" #sum ::: "memory")
#define TENON_TILE_DOT_BRAINS(sum, a, b) asm volatile("tdpbf16ps %%tmm" #b ", %%tmm" #a ", %%tmm" #sum ::: "memory")

namespace tenon::cpu::TENON_ISA_NAMESPACE {

inline constexpr int64_t kTileBytes = 64;   // of a row
inline constexpr int64_t kTileHeight = 16;  // rows
inline constexpr int64_t kTileSize = kTileBytes * kTileHeight;

// Eight whole tiles while it lives. The thread's registers are given back after that: with live tiles a context switch
// saves eight kilobytes more.
class TileScope {
 public:
  TileScope() {
    struct alignas(64) {
      uint8_t palette = 1, start_row = 0, reserved[14] = {};
      uint16_t row_bytes[16] = {};
      uint8_t rows[16] = {};
    } config;
    for (int i = 0; i < 8; ++i) config.row_bytes[i] = kTileBytes, config.rows[i] = kTileHeight;
    asm volatile("ldtilecfg %0" ::"m"(config));
  }
  ~TileScope() { asm volatile("tilerelease" :::); }
  TileScope(const TileScope&) = delete;
  TileScope& operator=(const TileScope&) = delete;
};

}  // namespace tenon::cpu::TENON_ISA_NAMESPACE
