// The innermost products of bytes: dot products of four (VNNI) where the instruction set has them, else products of
// 16-bit numbers whose neighbours add up. Both are exact. Only for simd/*.cc (see isa.h).
#pragma once

#include "ep/cpu/simd/f8.h"
#include "ep/cpu/simd/int8.h"
#include "ep/cpu/simd/nearest.h"

#if defined(__AVX512VNNI__) || defined(__AVXVNNI__)
#define TENON_VNNI 1
#include <immintrin.h>
#else
#define TENON_VNNI 0
#endif

namespace tenon::cpu::TENON_ISA_NAMESPACE {

inline constexpr int kVectors = static_cast<int>(kInt8Panel / kLanes);  // of a panel

// With 32 registers a tile has four panels, with 16 one; vectors of 128 bits leave room for two rows.
inline constexpr int kInt8TilePanels = HWY_MAX_BYTES >= 64 ? 4 : 1;
inline constexpr int kInt8TileRows = HWY_MAX_BYTES >= 32 ? 6 : 2;

TENON_INLINE uint32_t load_word(const void* p) {
  uint32_t word;
  __builtin_memcpy(&word, p, sizeof word);
  return word;
}

// The last 1 to 3 bytes of a row, and zeros.
TENON_INLINE uint32_t load_rest(const uint8_t* p, int64_t count) {
  uint32_t word = p[0];
  if (count > 1) word |= uint32_t{p[1]} << 8;
  if (count > 2) word |= uint32_t{p[2]} << 16;
  return word;
}

#if TENON_VNNI
// Rows of A: bytes without a sign.
using TileElement = uint8_t;

TENON_INLINE VI32 dot4(VI32 sum, VI32 a, VI32 b) {
#if HWY_MAX_BYTES >= 64
  return VI32{_mm512_dpbusd_epi32(sum.raw, a.raw, b.raw)};
#elif defined(__AVXVNNI__)
  return VI32{_mm256_dpbusd_avx_epi32(sum.raw, a.raw, b.raw)};
#else
  return VI32{_mm256_dpbusd_epi32(sum.raw, a.raw, b.raw)};
#endif
}

template <int kPanels>
TENON_INLINE void load_panels(const uint8_t* b, int64_t panel_stride, VI32 (&y)[kPanels * kVectors]) {
#pragma GCC unroll 4
  for (int p = 0; p < kPanels; ++p)
#pragma GCC unroll 2
    for (int v = 0; v < kVectors; ++v)
      y[p * kVectors + v] = hn::LoadU(DI32(), reinterpret_cast<const int32_t*>(b + p * panel_stride) + v * kLanes);
}

// out[i * 16 * kPanels + j] of kRows rows and kPanels panels. `lda` is in elements. Words of A come from memory
// straight into all places of a vector: from a register they would take a port of the products.
template <int kRows, int kPanels>
void product_tile(const TileElement* a, int64_t lda, const uint8_t* b, int64_t panel_stride, int64_t k, int32_t* out) {
  const DI32 d;
  VI32 x[kRows][kPanels * kVectors], y[kPanels * kVectors];
#pragma GCC unroll 6
  for (int i = 0; i < kRows; ++i)
#pragma GCC unroll 4
    for (int j = 0; j < kPanels * kVectors; ++j) x[i][j] = hn::Zero(d);
  // The rest of the depth comes first, and the loop last: so g++ keeps the sums in registers.
  const int64_t whole = k / 4 * 4;
  if (whole < k) {
    load_panels<kPanels>(b + whole * kInt8Panel, panel_stride, y);
#pragma GCC unroll 6
    for (int i = 0; i < kRows; ++i) {
      const VI32 value = hn::Set(d, static_cast<int32_t>(load_rest(a + i * lda + whole, k - whole)));
#pragma GCC unroll 4
      for (int j = 0; j < kPanels * kVectors; ++j) x[i][j] = dot4(x[i][j], value, y[j]);
    }
  }
  // Two base pointers: six rows are then reached with one index register each way.
  const uint8_t* low = a;
  const uint8_t* high = a + 3 * lda;
  for (int64_t p = 0; p < whole; p += 4, b += 4 * kInt8Panel, low += 4, high += 4) {
    load_panels<kPanels>(b, panel_stride, y);
#pragma GCC unroll 6
    for (int i = 0; i < kRows; ++i) {
      const uint32_t word = load_word(i < 3 ? low + i * lda : high + (i - 3) * lda);
      const VI32 value = hn::Set(d, static_cast<int32_t>(word));
#pragma GCC unroll 4
      for (int j = 0; j < kPanels * kVectors; ++j) x[i][j] = dot4(x[i][j], value, y[j]);
    }
  }
#pragma GCC unroll 6
  for (int i = 0; i < kRows; ++i)
#pragma GCC unroll 4
    for (int j = 0; j < kPanels * kVectors; ++j) hn::StoreU(x[i][j], d, out + i * kInt8Panel * kPanels + j * kLanes);
}

// `count` bytes with their sign bits flipped by `flip` (0x80808080).
TENON_INLINE void stage_row(const uint8_t* row, uint32_t flip, int64_t count, uint8_t* to) {
  const hn::Repartition<uint8_t, DI32> d8;
  constexpr int64_t kBytes = kLanes * 4;
  const auto sign = hn::Set(d8, static_cast<uint8_t>(flip));
  int64_t p = 0;
  for (; p + kBytes <= count; p += kBytes) hn::StoreU(hn::Xor(hn::LoadU(d8, row + p), sign), d8, to + p);
  for (; p + 4 <= count; p += 4) {
    const uint32_t word = load_word(row + p) ^ flip;
    __builtin_memcpy(to + p, &word, sizeof word);
  }
  for (; p < count; ++p) to[p] = row[p] ^ static_cast<uint8_t>(flip);
}
#else
// Rows of A widened to 16 bits, an even number of them (stage_row).
using TileElement = int16_t;

TENON_INLINE VI32 add_pairs(VI32 sum, hn::Vec<hn::Repartition<int16_t, DI32> > a,
                            hn::Vec<hn::Repartition<int16_t, DI32> > b) {
#if HWY_ARCH_ARM_A64
  const int32x4_t low = vmull_s16(vget_low_s16(a.raw), vget_low_s16(b.raw));
  return hn::Add(sum, VI32(vpaddq_s32(low, vmull_high_s16(a.raw, b.raw))));
#else
  VI32 unused = hn::Zero(DI32());
  return hn::ReorderWidenMulAccumulate(DI32(), a, b, sum, unused);
#endif
}

template <int kRows, int kPanels>
void product_tile(const TileElement* a, int64_t lda, const uint8_t* b, int64_t panel_stride, int64_t k, int32_t* out) {
  const DI32 d;
  const hn::Repartition<int16_t, DI32> d16;
  const hn::Rebind<int8_t, decltype(d16)> d8;
  VI32 x[kRows][kPanels * kVectors];
#pragma GCC unroll 6
  for (int i = 0; i < kRows; ++i)
#pragma GCC unroll 4
    for (int j = 0; j < kPanels * kVectors; ++j) x[i][j] = hn::Zero(d);
  for (int64_t p = 0; p < k; p += 2, b += 2 * kInt8Panel) {
    hn::Vec<decltype(d16)> y[kPanels * kVectors];
#pragma GCC unroll 4
    for (int panel = 0; panel < kPanels; ++panel)
#pragma GCC unroll 4
      for (int v = 0; v < kVectors; ++v) {
        const uint8_t* const from = b + panel * panel_stride + v * 2 * kLanes;
        y[panel * kVectors + v] = hn::PromoteTo(d16, hn::LoadU(d8, reinterpret_cast<const int8_t*>(from)));
      }
#pragma GCC unroll 6
    for (int i = 0; i < kRows; ++i) {
      const auto value = hn::BitCast(d16, hn::Set(d, static_cast<int32_t>(load_word(a + i * lda + p))));
#pragma GCC unroll 4
      for (int j = 0; j < kPanels * kVectors; ++j) x[i][j] = add_pairs(x[i][j], value, y[j]);
    }
  }
#pragma GCC unroll 6
  for (int i = 0; i < kRows; ++i)
#pragma GCC unroll 4
    for (int j = 0; j < kPanels * kVectors; ++j) hn::StoreU(x[i][j], d, out + i * kInt8Panel * kPanels + j * kLanes);
}

// Numbers of 16 bits for `count` bytes, and a zero behind an odd number of them.
TENON_INLINE void stage_row(const uint8_t* row, uint32_t flip, int64_t count, int16_t* to) {
  const hn::Repartition<int16_t, DI32> d16;
  const hn::Rebind<uint8_t, decltype(d16)> d8;
  const auto sign = hn::Set(d8, static_cast<uint8_t>(flip));
  int64_t p = 0;
  for (; p + 2 * kLanes <= count; p += 2 * kLanes)
    hn::StoreU(hn::PromoteTo(d16, hn::Xor(hn::LoadU(d8, row + p), sign)), d16, to + p);
  for (; p < count; ++p) to[p] = static_cast<int16_t>(row[p] ^ static_cast<uint8_t>(flip));
  if (count % 2 != 0) to[count] = 0;
}
#endif

}  // namespace tenon::cpu::TENON_ISA_NAMESPACE
