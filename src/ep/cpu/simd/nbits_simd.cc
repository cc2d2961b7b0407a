#include "ep/cpu/simd/nbits.h"

#include "ep/cpu/simd/f8.h"

namespace tenon::cpu::TENON_ISA_NAMESPACE {

namespace {

// A panel is one vector of 16 floats, two of 8 or four of 4.
constexpr int kLanes = HWY_MAX_BYTES >= 64 ? 16 : HWY_MAX_BYTES >= 32 ? 8 : 4;
constexpr int kVectors = kNBitsPanel / kLanes;
constexpr int kMostRows = kLanes == 16 ? 4 : kLanes == 8 ? 2 : 1;
using DW = hn::FixedTag<float, kLanes>;
using DN = hn::FixedTag<int32_t, kLanes>;
using DB = hn::FixedTag<uint8_t, kLanes>;
using Floats = hn::Vec<DW>;
using Numbers = hn::Vec<DN>;

TENON_INLINE Numbers widen_bytes(const uint8_t* bytes) { return hn::PromoteTo(DN(), hn::LoadU(DB(), bytes)); }

// The elements that are `kAt` bits up in each number.
template <int kBits, int kAt>
TENON_INLINE Floats elements(Numbers word) {
  if constexpr (kAt > 0) word = hn::ShiftRight<kAt>(word);
  if constexpr (kAt + kBits < 8) word = hn::And(word, hn::Set(DN(), (1 << kBits) - 1));
  return hn::ConvertTo(DW(), word);
}

template <int kBits>
TENON_INLINE Floats zero_points(const NBitsFormat& format, const uint8_t* block, int v) {
  if (!format.zero_points) return hn::Set(DW(), static_cast<float>(1 << (kBits - 1)));
  return hn::ConvertTo(DW(), widen_bytes(block + 4 * kNBitsPanel + v * kLanes));
}

TENON_INLINE Floats scales(const uint8_t* block, int v) {
  return hn::LoadU(DW(), reinterpret_cast<const float*>(block) + v * kLanes);
}

// sums[r][v] += the elements that are kAt bits up times A's element at k + kAt / kBits.
template <int kRows, int kBits, int kAt>
TENON_INLINE void add_products(const Numbers (&word)[kVectors], const float* a, int64_t lda,
                               Floats (&sums)[kRows][kVectors]) {
#pragma GCC unroll 4
  for (int v = 0; v < kVectors; ++v) {
    const Floats w = elements<kBits, kAt>(word[v]);
#pragma GCC unroll 4
    for (int r = 0; r < kRows; ++r) {
      sums[r][v] = hn::MulAdd(hn::Set(DW(), a[r * lda + kAt / kBits]), w, sums[r][v]);
    }
  }
  if constexpr (kAt + kBits < 8) add_products<kRows, kBits, kAt + kBits>(word, a, lda, sums);
}

// One panel's products for kRows rows; `c` gets 16 columns of each.
template <int kRows, int kBits>
void multiply_panel(const NBitsTask& t, const float* a, const float* block_sums, const uint8_t* panel, float* c,
                    int64_t ldc) {
  const NBitsFormat& f = t.format;
  Floats total[kRows][kVectors];
#pragma GCC unroll 4
  for (int r = 0; r < kRows; ++r)
    for (int v = 0; v < kVectors; ++v) total[r][v] = hn::Zero(DW());
  for (int64_t b = 0; b < f.blocks; ++b) {
    const uint8_t* const block = panel + b * f.block_bytes();
    const uint8_t* bytes = block + f.head_bytes();
    const float* row = a + b * f.block_size;
    Floats sums[kRows][kVectors];
#pragma GCC unroll 4
    for (int r = 0; r < kRows; ++r)
      for (int v = 0; v < kVectors; ++v) sums[r][v] = hn::Zero(DW());
    for (int64_t k = 0; k < f.block_size; k += 8 / kBits) {
      Numbers word[kVectors];
#pragma GCC unroll 4
      for (int v = 0; v < kVectors; ++v) word[v] = widen_bytes(bytes + v * kLanes);
      add_products<kRows, kBits, 0>(word, row + k, t.lda, sums);
      bytes += kNBitsPanel;
    }
#pragma GCC unroll 4
    for (int v = 0; v < kVectors; ++v) {
      const Floats zero = zero_points<kBits>(f, block, v), scale = scales(block, v);
#pragma GCC unroll 4
      for (int r = 0; r < kRows; ++r) {
        const Floats from_zero = hn::NegMulAdd(zero, hn::Set(DW(), block_sums[r * f.blocks + b]), sums[r][v]);
        total[r][v] = hn::MulAdd(scale, from_zero, total[r][v]);
      }
    }
  }
#pragma GCC unroll 4
  for (int r = 0; r < kRows; ++r)
    for (int v = 0; v < kVectors; ++v) hn::StoreU(total[r][v], DW(), c + r * ldc + v * kLanes);
}

template <int kBits>
void multiply_rows(const NBitsTask& t, [[maybe_unused]] int64_t rows, const float* a, const float* sums,
                   const uint8_t* panel, float* c, int64_t ldc) {
#if HWY_MAX_BYTES >= 64
  if (rows == 4) return multiply_panel<4, kBits>(t, a, sums, panel, c, ldc);
  if (rows == 3) return multiply_panel<3, kBits>(t, a, sums, panel, c, ldc);
#endif
#if HWY_MAX_BYTES >= 32
  if (rows == 2) return multiply_panel<2, kBits>(t, a, sums, panel, c, ldc);
#endif
  multiply_panel<1, kBits>(t, a, sums, panel, c, ldc);
}

void run(const NBitsTask& t) {
  for (int64_t first = 0; first < t.n; first += kNBitsPanel) {
    const int64_t columns = t.n - first < kNBitsPanel ? t.n - first : kNBitsPanel;
    const uint8_t* const panel = t.b + first / kNBitsPanel * t.format.panel_bytes();
    for (int64_t i = 0; i < t.m; i += kMostRows) {
      const int64_t rows = t.m - i < kMostRows ? t.m - i : kMostRows;
      alignas(64) float tile[kMostRows * kNBitsPanel];
      const float* const a = t.a + i * t.lda;
      const float* const sums = t.sums + i * t.format.blocks;
      if (t.format.bits == 4) {
        multiply_rows<4>(t, rows, a, sums, panel, tile, kNBitsPanel);
      } else if (t.format.bits == 8) {
        multiply_rows<8>(t, rows, a, sums, panel, tile, kNBitsPanel);
      } else {
        multiply_rows<2>(t, rows, a, sums, panel, tile, kNBitsPanel);
      }
      for (int64_t r = 0; r < rows; ++r) {
        float* const c = t.c + (i + r) * t.ldc + first;
        for (int64_t j = 0; j < columns; ++j) {
          c[j] = tile[r * kNBitsPanel + j] + (t.bias != nullptr ? t.bias[first + j] : 0.0f);
        }
      }
    }
  }
}

void sum_blocks(const float* a, int64_t block_size, int64_t blocks, float* sums) {
  for (int64_t b = 0; b < blocks; ++b, a += block_size) {
    F8 sum = zero8();
    int64_t k = 0;
    for (; k + 8 <= block_size; k += 8) sum = sum + load8(a + k);
    float total = sum8(sum);
    for (; k < block_size; ++k) total += a[k];
    sums[b] = total;
  }
}

template <int kBits, int kAt>
TENON_INLINE void store_elements(Numbers word, Floats zero, Floats scale, float* to) {
  hn::StoreU(hn::Mul(hn::Sub(elements<kBits, kAt>(word), zero), scale), DW(), to + kAt / kBits * kNBitsPanel);
  if constexpr (kAt + kBits < 8) store_elements<kBits, kAt + kBits>(word, zero, scale, to);
}

template <int kBits>
void widen_blocks(const NBitsFormat& f, const uint8_t* panel, int64_t first, int64_t last, float* floats) {
  for (int64_t b = first; b < last; ++b) {
    const uint8_t* const block = panel + b * f.block_bytes();
    for (int v = 0; v < kVectors; ++v) {
      const Floats zero = zero_points<kBits>(f, block, v), scale = scales(block, v);
      const uint8_t* bytes = block + f.head_bytes() + v * kLanes;
      float* to = floats + (b - first) * f.block_size * kNBitsPanel + v * kLanes;
      for (int64_t k = 0; k < f.block_size; k += 8 / kBits) {
        store_elements<kBits, 0>(widen_bytes(bytes), zero, scale, to);
        bytes += kNBitsPanel;
        to += 8 / kBits * kNBitsPanel;
      }
    }
  }
}

void widen(const NBitsFormat& f, const uint8_t* panel, int64_t first, int64_t last, float* floats) {
  if (f.bits == 4) return widen_blocks<4>(f, panel, first, last, floats);
  if (f.bits == 8) return widen_blocks<8>(f, panel, first, last, floats);
  widen_blocks<2>(f, panel, first, last, floats);
}

}  // namespace

extern const NBitsTable nbits_table;
const NBitsTable nbits_table = {&run, &sum_blocks, &widen};

}  // namespace tenon::cpu::TENON_ISA_NAMESPACE
