// The innermost products of float32: some rows by some panels of 16 columns, whose sums stay in registers over the
// whole depth. Only for simd/*.cc (see isa.h).
#pragma once

#include "ep/cpu/simd/gemm.h"
#include "ep/cpu/simd/half8.h"
#include "ep/cpu/simd/wide.h"

namespace tenon::cpu::TENON_ISA_NAMESPACE {

inline constexpr int kPanelVectors = static_cast<int>(kGemmPanel / kWide);
// With 512 bits 12 x 32 takes 24 sums, two registers of B and one of A, of 32. With 256 bits 6 x 16 takes 12 sums, two
// of B and one of A, of 16. With 128 bits 2 x 16 does.
inline constexpr int kTileRows = HWY_MAX_BYTES >= 64 ? 12 : HWY_MAX_BYTES >= 32 ? 6 : 2;
inline constexpr bool kMaskedColumns = HWY_MAX_BYTES >= 64;

// Panels of a tile: few rows need more of them, to have enough sums that do not wait for each other.
constexpr int most_panels(int64_t rows) {
  if (HWY_MAX_BYTES >= 64) return rows <= 3 ? 8 : rows <= 6 ? 4 : 2;
  if (HWY_MAX_BYTES >= 32) return rows == 1 ? 4 : rows == 2 ? 2 : 1;
  return rows == 1 ? 2 : 1;
}

// How B lies in memory.
struct PackedB {
  using Element = float;
  static constexpr int kMostRows = kTileRows;
  static constexpr bool kPacked = true, kEveryWidth = true;
  static TENON_INLINE FW load(const float* p, int64_t) { return load_wide(p); }
};
// Rows of B in the caller's memory; the last panel has no columns past the matrix.
struct PlainB {
  using Element = float;
  static constexpr int kMostRows = kTileRows < 6 ? kTileRows : 6;
  static constexpr bool kPacked = false, kEveryWidth = false;
  static TENON_INLINE FW load(const float* p, int64_t count) {
    return count >= kWide ? load_wide(p) : load_part_wide(p, count < 0 ? 0 : count, 0.0f);
  }
};
template <typename T>
struct NarrowB {
  using Element = uint16_t;
  static constexpr int kMostRows = kTileRows < kGemmNarrowRows ? kTileRows : kGemmNarrowRows;
  static constexpr bool kPacked = true, kEveryWidth = false;
  static TENON_INLINE FW load(const uint16_t* p, int64_t) { return T::load_wide(p); }
};

// c = [c +] a * b, or alpha times that plus bias when this is the last part of the depth.
template <typename B>
struct Tile {
  const float* a;
  int64_t lda;
  const typename B::Element* b;
  int64_t panel_stride;
  int64_t row_stride;  // of B, unless packed
  int64_t k;
  float* c;
  int64_t ldc;
  int64_t last_columns;  // of the last panel
  bool accumulate;
  bool last;
  float alpha;
  const float* bias;  // or null
};

template <typename B, int kRows, int kPanels>
void product_tile(const Tile<B>& t) {
  constexpr int kVectors = kPanels * kPanelVectors;
  const auto load = [&](const float* p, int v) {
    if (kMaskedColumns && v == kVectors - 1) return load_part_wide(p + v * kWide, t.last_columns, 0.0f);
    return load_wide(p + v * kWide);
  };
  FW x[kRows][kVectors];
  if (t.accumulate) {
#pragma GCC unroll 12
    for (int i = 0; i < kRows; ++i)
#pragma GCC unroll 8
      for (int v = 0; v < kVectors; ++v) x[i][v] = load(t.c + i * t.ldc, v);
  } else {
#pragma GCC unroll 12
    for (int i = 0; i < kRows; ++i)
#pragma GCC unroll 8
      for (int v = 0; v < kVectors; ++v) x[i][v] = zero_wide();
  }
  // One base pointer for three rows, which are then reached with one index register.
  constexpr int kBases = (kRows + 2) / 3;
  const int64_t lda = t.lda;
  const float* a[kBases];
#pragma GCC unroll 4
  for (int i = 0; i < kBases; ++i) a[i] = t.a + 3 * i * lda;
  const typename B::Element* b = t.b;
  const int64_t panel_stride = B::kPacked ? t.panel_stride : kGemmPanel;
  const int64_t row_stride = B::kPacked ? kGemmPanel : t.row_stride, last_columns = t.last_columns;
  for (int64_t p = 0; p < t.k; ++p) {
    FW y[kVectors];
#pragma GCC unroll 8
    for (int v = 0; v < kVectors; ++v)
      y[v] = B::load(b + v / kPanelVectors * panel_stride + v % kPanelVectors * kWide,
                     v / kPanelVectors < kPanels - 1 ? kWide : last_columns - v % kPanelVectors * kWide);
    b += row_stride;
    // B comes from L2: two to five percent of a product of 512 bits. Fewer rows are bound by loads.
    if constexpr (B::kPacked && kMaskedColumns && kRows >= 4) {
#pragma GCC unroll 8
      for (int j = 0; j < kPanels; ++j) __builtin_prefetch(b + j * panel_stride + 16 * kGemmPanel);
    }
#pragma GCC unroll 12
    for (int i = 0; i < kRows; ++i) {
      const FW value = set_wide(a[i / 3][i % 3 * lda]);
#pragma GCC unroll 8
      for (int v = 0; v < kVectors; ++v) x[i][v] = fma8(value, y[v], x[i][v]);
    }
#pragma GCC unroll 4
    for (int i = 0; i < kBases; ++i) ++a[i];
  }
  if (t.last && (t.bias != nullptr || t.alpha != 1)) {
    const FW alpha = set_wide(t.alpha);
#pragma GCC unroll 8
    for (int v = 0; v < kVectors; ++v) {
      const FW bias = t.bias ? load(t.bias, v) : zero_wide();
#pragma GCC unroll 12
      for (int i = 0; i < kRows; ++i) x[i][v] = fma8(x[i][v], alpha, bias);
    }
  }
#pragma GCC unroll 12
  for (int i = 0; i < kRows; ++i) {
#pragma GCC unroll 8
    for (int v = 0; v < kVectors; ++v) {
      float* const to = t.c + i * t.ldc + v * kWide;
      if (kMaskedColumns && v == kVectors - 1) {
        store_part_wide(to, t.last_columns, x[i][v]);
      } else {
        store_wide(to, x[i][v]);
      }
    }
  }
}

// The tile's next smaller number of panels. Where B is not float32 in panels, code of eight and of two is left out.
template <typename B>
constexpr int64_t fewer_panels(int64_t panels) {
  return B::kEveryWidth ? panels / 2 : panels > 4 ? 4 : panels > 1 ? 1 : 0;
}
template <typename B>
constexpr int64_t first_panels(int64_t rows) {
  return B::kEveryWidth || most_panels(rows) < 4 ? most_panels(rows) : 4;
}

template <typename B, int kRows, int kPanels = first_panels<B>(kRows)>
TENON_INLINE void product_panels(const Tile<B>& tile, int64_t panels) {
  if (panels == kPanels) return product_tile<B, kRows, kPanels>(tile);
  if constexpr (kPanels > 1) product_panels<B, kRows, fewer_panels<B>(kPanels)>(tile, panels);
}

// `rows` up to B::kMostRows by `panels` panels: first_panels(rows), or fewer_panels() of that once or more.
template <typename B, int kRows = 1>
TENON_INLINE void product(const Tile<B>& tile, int64_t rows, int64_t panels) {
  if (rows == kRows) return product_panels<B, kRows>(tile, panels);
  if constexpr (kRows < B::kMostRows) product<B, kRows + 1>(tile, rows, panels);
}

}  // namespace tenon::cpu::TENON_ISA_NAMESPACE
