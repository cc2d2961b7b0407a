// Products of bytes in AMX tiles. Only for int8_simd.cc, with VNNI.
#pragma once

#include "ep/cpu/simd/int8_finish.h"

namespace tenon::cpu::TENON_ISA_NAMESPACE {

namespace {

// Fewer rows are bound by the memory of B, and a smaller depth fills too little of a tile.
constexpr int64_t kLeastTileRows = 4, kLeastTileDepth = 32;
constexpr int64_t kStagedRows = kMostRows;
constexpr int64_t kStagedDepth = 2048;

// Rows of A as tiles: each is 16 rows of 64 bytes, [chunk of the depth][tile of rows], zeros around A.
void stage_rows(const uint8_t* a, int64_t lda, uint8_t flip, int64_t rows, int64_t depth, uint8_t* staged) {
  const hn::FixedTag<uint8_t, 64> d;
  const auto sign = hn::Set(d, flip);
  for (int64_t i = 0; i < kStagedRows; ++i) {
    uint8_t* to = staged + i * kTileBytes;
    for (int64_t p = 0; p < depth; p += kTileBytes, to += 2 * kTileSize) {
      if (i >= rows) {
        hn::Store(hn::Zero(d), d, to);
        continue;
      }
      const int64_t count = least(kTileBytes, depth - p);
      const auto mask = static_cast<__mmask64>(~uint64_t{0} >> (kTileBytes - count));
      const hn::Vec<decltype(d)> bytes{_mm512_maskz_loadu_epi8(mask, a + i * lda + p)};
      hn::Store(hn::Vec<decltype(d)>{_mm512_maskz_mov_epi8(mask, hn::Xor(bytes, sign).raw)}, d, to);
    }
  }
}

// The last chunk of a panel's depth, and zeros.
void stage_rest(const uint8_t* b, int64_t groups, uint8_t* staged) {
  const hn::FixedTag<uint8_t, 64> d;
  for (int64_t i = 0; i < kTileHeight; ++i)
    hn::Store(i < groups ? hn::LoadU(d, b + i * kTileBytes) : hn::Zero(d), d, staged + i * kTileBytes);
}

// sums[i * kWidth + j] = [sums +] of 32 rows, or 16 unless kTwoRows, and two panels, or one.
template <bool kTwoRows, bool kTwoPanels>
void tile_product(const uint8_t* a, const uint8_t* b, int64_t panel_stride, int64_t depth, bool accumulate,
                  int32_t* sums) {
  constexpr int64_t kStride = kWidth * 4;
  int32_t* const low = sums + kTileHeight * kWidth;
  alignas(64) uint8_t rest[2 * kTileSize];
  if (accumulate) {
    TENON_TILE_LOAD(0, sums, kStride);
    if constexpr (kTwoPanels) TENON_TILE_LOAD(1, sums + kInt8Panel, kStride);
    if constexpr (kTwoRows) TENON_TILE_LOAD(2, low, kStride);
    if constexpr (kTwoRows && kTwoPanels) TENON_TILE_LOAD(3, low + kInt8Panel, kStride);
  } else {
    TENON_TILE_ZERO(0);
    TENON_TILE_ZERO(1);
    TENON_TILE_ZERO(2);
    TENON_TILE_ZERO(3);
  }
  for (int64_t p = 0; p < depth; p += kTileBytes, a += 2 * kTileSize) {
    const uint8_t* from = b + p * kInt8Panel;
    int64_t stride = panel_stride;
    if (const int64_t groups = (depth - p + 3) / 4; groups < kTileHeight) {
      stage_rest(from, groups, rest);
      if (kTwoPanels) stage_rest(from + stride, groups, rest + kTileSize);
      from = rest, stride = kTileSize;
    }
    TENON_TILE_LOAD(4, a, kTileBytes);
    TENON_TILE_LOAD(6, from, kTileBytes);
    TENON_TILE_DOT_BYTES(0, 4, 6);
    if constexpr (kTwoPanels) {
      TENON_TILE_LOAD(7, from + stride, kTileBytes);
      TENON_TILE_DOT_BYTES(1, 4, 7);
    }
    if constexpr (kTwoRows) {
      TENON_TILE_LOAD(5, a + kTileSize, kTileBytes);
      TENON_TILE_DOT_BYTES(2, 5, 6);
      if constexpr (kTwoPanels) TENON_TILE_DOT_BYTES(3, 5, 7);
    }
  }
  TENON_TILE_STORE(0, sums, kStride);
  if constexpr (kTwoPanels) TENON_TILE_STORE(1, sums + kInt8Panel, kStride);
  if constexpr (kTwoRows) TENON_TILE_STORE(2, low, kStride);
  if constexpr (kTwoRows && kTwoPanels) TENON_TILE_STORE(3, low + kInt8Panel, kStride);
}

}  // namespace

}  // namespace tenon::cpu::TENON_ISA_NAMESPACE
