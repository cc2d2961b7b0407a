#include "ep/cpu/simd/int8.h"

#include "ep/cpu/simd/epilogue.h"
#include "ep/cpu/simd/int8_tile.h"
#include "ep/cpu/simd/nearest.h"

// Every CPU with AMX has AVX-512 with VNNI: the tiles are a second table of that set.
#if defined(__AVX512VNNI__)
#define TENON_AMX 1
#include "ep/cpu/simd/tiles.h"
#else
#define TENON_AMX 0
#endif

namespace tenon::cpu::TENON_ISA_NAMESPACE {

namespace {

TENON_INLINE int64_t least(int64_t a, int64_t b) { return a < b ? a : b; }

constexpr int64_t kWidth = kInt8Panel * kInt8TilePanels;  // columns of a tile

// Elements of the arrays of columns that are left out.
struct Blanks {
  alignas(64) int32_t zeros[kWidth] = {};
  alignas(64) float float_zeros[kWidth] = {};
  alignas(64) float ones[kWidth];
  Blanks() {
    for (float& one : ones) one = 1;
  }
};

// --- after the product ---

// The sums of one row of a tile, in place.
TENON_INLINE void correct_row(const Int8Task& task, int64_t row, int64_t column, int64_t columns, int32_t row_factor,
                              int32_t* sums) {
  const DI32 d;
  const VI32 row_term = hn::Set(d, task.row_terms ? task.row_terms[row] : 0);
  const VI32 factor = hn::Set(d, row_factor);
  for (int64_t j = 0; j < columns; j += kLanes) {
    VI32 sum = hn::Add(hn::LoadU(d, sums + j), row_term);
    if (task.column_terms) sum = hn::Add(sum, hn::LoadU(d, task.column_terms + column + j));
    if (task.column_factors) sum = hn::Sub(sum, hn::Mul(factor, hn::LoadU(d, task.column_factors + column + j)));
    hn::StoreU(sum, d, sums + j);
  }
}

// The integers of a step, less its zero point. Of a NaN and a number, Max gives its second operand, or the number.
TENON_INLINE VF32 steps_of(VF32 x, const Int8Step& step) {
  const DF32 d;
  const VF32 low = hn::Set(d, step.low - step.zero), high = hn::Set(d, step.high - step.zero);
  return hn::Min(hn::Max(hn::Mul(x, hn::Set(d, step.inverse)), low), high);
}

// x of one row, in place of its sums.
TENON_INLINE void scale_row(const Int8Task& task, const Blanks& blanks, int64_t row, int64_t column, int64_t columns,
                            int32_t* sums) {
  const DI32 d;
  const DF32 f;
  const float* const scales = task.column_scales ? task.column_scales + column : blanks.ones;
  const float* const bias = task.column_bias ? task.column_bias + column : blanks.float_zeros;
  const float* const middle_bias = task.middle_bias ? task.middle_bias + column : blanks.float_zeros;
  const VF32 row_scale = hn::Set(f, task.row_scales ? task.row_scales[row] : 1.0f);
  const VF32 row_bias = hn::Set(f, task.row_bias ? task.row_bias[row] : 0.0f);
  auto* const x = reinterpret_cast<float*>(sums);
  for (int64_t j = 0; j < columns; j += kLanes) {
    const VF32 scale = hn::Mul(hn::LoadU(f, scales + j), row_scale);
    VF32 value = hn::MulAdd(hn::ConvertTo(f, hn::LoadU(d, sums + j)), scale, hn::Add(hn::LoadU(f, bias + j), row_bias));
    if (task.middle) {
      value = hn::MulAdd(hn::Round(steps_of(value, task.middle_step)), hn::Set(f, task.middle_scale),
                         hn::LoadU(f, middle_bias + j));
    }
    hn::StoreU(value, f, x + j);
  }
}

// The activation of one row, in place; a residual counts before it or after it.
using ActivateRow = void (*)(float* x, const float* residual, int64_t columns, const Epilogue& epilogue);

template <Activation kActivation>
void activate_row(float* x, const float* residual, int64_t columns, const Epilogue& epilogue) {
  const FW alpha = set_wide(epilogue.alpha), beta = set_wide(epilogue.beta);
  for (int64_t j = 0; j < columns; j += kWide) {
    FW value = load_wide(x + j);
    if (residual && !epilogue.residual_after) value = value + load_wide(residual + j);
    value = activate8<kActivation>(value, alpha, beta);
    if (residual && epilogue.residual_after) value = value + load_wide(residual + j);
    store_wide(x + j, value);
  }
}

ActivateRow choose_activation(const Int8Task& task) {
  ActivateRow activate = nullptr;
  if (task.output == Int8Output::kInt32) return activate;
  if (task.residual == nullptr && task.epilogue.activation == Activation::kNone) return activate;
  with_activation(task.epilogue.activation, [&]<Activation kA>() { activate = &activate_row<kA>; });
  return activate;
}

// The bytes of one row.
TENON_INLINE void quantise_row(const Int8Task& task, const float* x, int64_t columns, uint8_t* to) {
  const DI32 d;
  const DF32 f;
  const hn::Rebind<uint8_t, DI32> d8;
  const auto sign = hn::Set(d8, static_cast<uint8_t>(task.output == Int8Output::kInt8 ? 0x80 : 0));
  const VI32 zero = hn::Set(d, static_cast<int32_t>(task.step.zero));
  for (int64_t j = 0; j < columns; j += kLanes) {
    const VI32 q = hn::Add(nearest_small(steps_of(hn::LoadU(f, x + j), task.step)), zero);
    hn::StoreU(hn::Xor(hn::DemoteTo(d8, q), sign), d8, to + j);
  }
  if (task.table != nullptr)
    for (int64_t j = 0; j < columns; ++j) to[j] = task.table[to[j]];
}

template <typename T>
TENON_INLINE void store_row(const T* from, int64_t columns, void* c, int64_t index) {
  __builtin_memcpy(static_cast<T*>(c) + index, from, static_cast<size_t>(columns) * sizeof(T));
}

// A tile of sums with rows of `width` elements becomes `columns` columns of C.
void finish(const Int8Task& task, const Blanks& blanks, ActivateRow activate, int64_t row, int64_t rows, int64_t column,
            int64_t columns, int64_t width, const int32_t* row_sums, int32_t* sums) {
  const int64_t whole = int8_columns(columns);
  const bool corrects = task.row_terms || task.column_terms || task.column_factors;
  alignas(64) uint8_t bytes[kWidth];
  alignas(64) float residual[kWidth] = {};
  for (int64_t i = 0; i < rows; ++i, sums += width) {
    const int64_t index = (row + i) * task.ldc + column;
    if (corrects)
      correct_row(task, row + i, column, whole, task.row_factors ? task.row_factors[row + i] : row_sums[i], sums);
    if (task.output == Int8Output::kInt32) {
      store_row(sums, columns, task.c, index);
      continue;
    }
    scale_row(task, blanks, row + i, column, whole, sums);
    auto* const x = reinterpret_cast<float*>(sums);
    if (activate) {
      const float* added = task.residual ? task.residual + (row + i) * task.ldr + column : nullptr;
      if (added != nullptr && columns != whole) {
        for (int64_t j = 0; j < columns; ++j) residual[j] = added[j];
        added = residual;
      }
      activate(x, added, whole, task.epilogue);
    }
    if (task.output == Int8Output::kFloat) {
      store_row(x, columns, task.c, index);
    } else {
      quantise_row(task, x, whole, bytes);
      store_row(bytes, columns, task.c, index);
    }
  }
}

// --- the product ---

int32_t sum_of_row(const uint8_t* row, uint8_t flip, int64_t k) {
  const hn::CappedTag<uint8_t, 64> d;
  const hn::Repartition<uint64_t, decltype(d)> d64;
  const auto sign = hn::Set(d, flip);
  auto sums = hn::Zero(d64);
  int64_t p = 0;
  const auto step = static_cast<int64_t>(hn::Lanes(d));
  for (; p + step <= k; p += step) sums = hn::Add(sums, hn::SumsOf8(hn::Xor(hn::LoadU(d, row + p), sign)));
  alignas(64) uint64_t lanes[8];
  hn::Store(sums, d64, lanes);
  uint64_t sum = 0;
  for (size_t i = 0; i < hn::Lanes(d64); ++i) sum += lanes[i];
  for (; p < k; ++p) sum += row[p] ^ flip;
  return static_cast<int32_t>(static_cast<uint32_t>(sum));
}

template <int kPanels>
TENON_INLINE void product_rows(int64_t rows, const TileElement* a, int64_t lda, uint32_t flip, const uint8_t* b,
                               int64_t panel_stride, int64_t k, int32_t* out) {
  switch (rows) {
    case 1:
      return product_tile<1, kPanels>(a, lda, flip, b, panel_stride, k, out);
    case 2:
      return product_tile<2, kPanels>(a, lda, flip, b, panel_stride, k, out);
#if HWY_MAX_BYTES >= 32
    case 3:
      return product_tile<3, kPanels>(a, lda, flip, b, panel_stride, k, out);
    case 4:
      return product_tile<4, kPanels>(a, lda, flip, b, panel_stride, k, out);
    case 5:
      return product_tile<5, kPanels>(a, lda, flip, b, panel_stride, k, out);
    case 6:
      return product_tile<6, kPanels>(a, lda, flip, b, panel_stride, k, out);
#endif
  }
}

// Panels of the next tile, where `left` are left.
TENON_INLINE int64_t tile_panels(int64_t left) {
  if (kInt8TilePanels == 1) return 1;
  return left >= 4 ? 4 : left >= 2 ? 2 : 1;
}

void product(int64_t rows, int64_t panels, const TileElement* a, int64_t lda, uint32_t flip, const uint8_t* b,
             int64_t panel_stride, int64_t k, int32_t* out) {
  if constexpr (kInt8TilePanels == 4) {
    if (panels == 4) return product_rows<4>(rows, a, lda, flip, b, panel_stride, k, out);
    if (panels == 2) return product_rows<2>(rows, a, lda, flip, b, panel_stride, k, out);
  }
  product_rows<1>(rows, a, lda, flip, b, panel_stride, k, out);
}

// The last two tiles share what is left, because tiles of one or two rows leave the multipliers idle.
TENON_INLINE int64_t tile_rows(int64_t m, int64_t end) {
  const int64_t left = end - m;
  if (left <= kInt8TileRows) return left;
  if (left >= 2 * kInt8TileRows) return kInt8TileRows;
  return (left + 1) / 2;
}

#if !TENON_VNNI
// Rows of A wider than this are multiplied in blocks, whose sums add up.
constexpr int64_t kWidened = 1024;
#endif

void run(const Int8Task& task) {
  const Blanks blanks;
  const ActivateRow activate = choose_activation(task);
  const uint32_t flip = task.a_signed ? 0x80808080u : 0;
  const bool sums_rows = task.column_factors != nullptr && task.row_factors == nullptr;
  alignas(64) int32_t sums[kInt8TileRows * kWidth];
  int32_t row_sums[kInt8TileRows] = {};
#if !TENON_VNNI
  alignas(64) int16_t wide[kInt8TileRows * kWidened];
  alignas(64) int32_t block_sums[kInt8TileRows * kWidth];
#endif
  for (int64_t m = 0, rows = 0; m < task.m; m += rows) {
    rows = tile_rows(m, task.m);
    const uint8_t* const a = task.a + m * task.lda;
    if (sums_rows)
      for (int64_t i = 0; i < rows; ++i) row_sums[i] = sum_of_row(a + i * task.lda, static_cast<uint8_t>(flip), task.k);
    int64_t panels = 0;
    for (int64_t n = 0; n < task.n; n += panels * kInt8Panel) {
      panels = tile_panels(int8_columns(task.n - n) / kInt8Panel);
      const uint8_t* const b = task.b + n / kInt8Panel * task.panel_stride;
      const int64_t width = panels * kInt8Panel;
#if TENON_VNNI
      product(rows, panels, a, task.lda, flip, b, task.panel_stride, task.k, sums);
#else
      for (int64_t k0 = 0; k0 == 0 || k0 < task.k; k0 += kWidened) {
        const int64_t depth = least(kWidened, task.k - k0);
        if (n == 0 || task.k > kWidened)
          for (int64_t i = 0; i < rows; ++i) widen_row(a + i * task.lda + k0, flip, depth, wide + i * kWidened);
        product(rows, panels, wide, kWidened, 0, b + k0 * kInt8Panel, task.panel_stride, depth,
                k0 == 0 ? sums : block_sums);
        if (k0 == 0) continue;
        for (int64_t i = 0; i < rows * width; ++i)
          sums[i] = static_cast<int32_t>(static_cast<uint32_t>(sums[i]) + static_cast<uint32_t>(block_sums[i]));
      }
#endif
      finish(task, blanks, activate, m, rows, n, least(width, task.n - n), width, row_sums, sums);
    }
  }
}

#if TENON_AMX
// --- the product in tiles ---

// Fewer rows are bound by the memory of B.
constexpr int64_t kLeastTileRows = 4;
constexpr int64_t kStagedRows = 2 * kTileHeight;
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

void run_tiles(const Int8Task& task) {
  if (task.m < kLeastTileRows) return run(task);
  const Blanks blanks;
  const ActivateRow activate = choose_activation(task);
  const uint8_t flip = task.a_signed ? 0x80 : 0;
  const bool sums_rows = task.column_factors != nullptr && task.row_factors == nullptr;
  alignas(64) uint8_t staged[kStagedRows * kStagedDepth];
  alignas(64) int32_t sums[kStagedRows * kWidth];
  int32_t row_sums[kStagedRows] = {};
  const TileScope scope;
  for (int64_t m = 0; m < task.m; m += kStagedRows) {
    const int64_t rows = least(kStagedRows, task.m - m);
    const uint8_t* const a = task.a + m * task.lda;
    if (sums_rows)
      for (int64_t i = 0; i < rows; ++i) row_sums[i] = sum_of_row(a + i * task.lda, flip, task.k);
    for (int64_t n = 0; n < task.n; n += kWidth) {
      const int64_t columns = least(kWidth, task.n - n);
      const uint8_t* const b = task.b + n / kInt8Panel * task.panel_stride;
      for (int64_t k0 = 0; k0 == 0 || k0 < task.k; k0 += kStagedDepth) {
        const int64_t depth = least(kStagedDepth, task.k - k0);
        if (n == 0 || task.k > kStagedDepth) stage_rows(a + k0, task.lda, flip, rows, depth, staged);
        for (int64_t j = 0; j < columns; j += 2 * kInt8Panel) {
          const uint8_t* const panel = b + j / kInt8Panel * task.panel_stride + k0 * kInt8Panel;
          const bool two_rows = rows > kTileHeight, two_panels = columns - j > kInt8Panel;
          const auto tiles = two_rows ? (two_panels ? &tile_product<true, true> : &tile_product<true, false>)
                                      : (two_panels ? &tile_product<false, true> : &tile_product<false, false>);
          tiles(staged, panel, task.panel_stride, depth, k0 > 0, sums + j);
        }
      }
      finish(task, blanks, activate, m, rows, n, columns, kWidth, row_sums, sums);
    }
  }
}
#endif

// --- packing ---

using D8 = hn::FixedTag<uint8_t, 16>;
using V8 = hn::Vec<D8>;

// Four rows of 16 columns, in the order that product_tile reads.
TENON_INLINE void store_group(V8 r0, V8 r1, V8 r2, V8 r3, uint8_t* to) {
  const D8 d;
  const V8 low01 = hn::InterleaveLower(d, r0, r1), high01 = hn::InterleaveUpper(d, r0, r1);
  const V8 low23 = hn::InterleaveLower(d, r2, r3), high23 = hn::InterleaveUpper(d, r2, r3);
#if TENON_VNNI
  const hn::Repartition<uint16_t, D8> d16;
  const auto a = hn::BitCast(d16, low01), b = hn::BitCast(d16, low23);
  const auto e = hn::BitCast(d16, high01), f = hn::BitCast(d16, high23);
  hn::StoreU(hn::BitCast(d, hn::InterleaveLower(d16, a, b)), d, to);
  hn::StoreU(hn::BitCast(d, hn::InterleaveUpper(d16, a, b)), d, to + 16);
  hn::StoreU(hn::BitCast(d, hn::InterleaveLower(d16, e, f)), d, to + 32);
  hn::StoreU(hn::BitCast(d, hn::InterleaveUpper(d16, e, f)), d, to + 48);
#else
  hn::StoreU(low01, d, to);
  hn::StoreU(high01, d, to + 16);
  hn::StoreU(low23, d, to + 32);
  hn::StoreU(high23, d, to + 48);
#endif
}

// The sums of a packed panel's columns.
void sum_panel(const uint8_t* packed, int64_t depth, int32_t* sums) {
  const auto* const b = reinterpret_cast<const int8_t*>(packed);
  for (int64_t j = 0; j < kInt8Panel; ++j) sums[j] = 0;
#if TENON_VNNI
  const DI32 d;
  const VI32 ones = hn::Set(d, 0x01010101);
  VI32 x[kVectors];
  for (int v = 0; v < kVectors; ++v) x[v] = hn::Zero(d);
  for (int64_t p = 0; p < depth; p += 4)
    for (int v = 0; v < kVectors; ++v)
      x[v] = dot4(x[v], ones, hn::LoadU(d, reinterpret_cast<const int32_t*>(b + p * kInt8Panel) + v * kLanes));
  for (int v = 0; v < kVectors; ++v) hn::StoreU(x[v], d, sums + v * kLanes);
#else
  for (int64_t p = 0; p < depth; p += 2)
    for (int64_t j = 0; j < kInt8Panel; ++j) sums[j] += b[p * kInt8Panel + 2 * j] + b[p * kInt8Panel + 2 * j + 1];
#endif
}

void pack_rows(const uint8_t* b, bool b_signed, const int64_t* offsets, int64_t k, uint8_t* packed, int32_t* sums) {
  const D8 d;
  const V8 sign = hn::Set(d, static_cast<uint8_t>(b_signed ? 0 : 0x80)), zero = hn::Zero(d);
  const auto row = [&](int64_t p) { return hn::Xor(hn::LoadU(d, b + offsets[p]), sign); };
  int64_t p = 0;
  for (; p + 4 <= k; p += 4) store_group(row(p), row(p + 1), row(p + 2), row(p + 3), packed + p * kInt8Panel);
  if (p < k)
    store_group(row(p), p + 1 < k ? row(p + 1) : zero, p + 2 < k ? row(p + 2) : zero, zero, packed + p * kInt8Panel);
  if (sums != nullptr) sum_panel(packed, int8_depth(k), sums);
}

void pack(const uint8_t* b, bool b_signed, int64_t row_stride, int64_t column_stride, int64_t k, int64_t n,
          int64_t first, int64_t last, uint8_t* packed, int32_t* sums) {
  const D8 d;
  const uint8_t sign = b_signed ? 0 : 0x80;
  const int64_t depth = int8_depth(k);
  for (int64_t panel = first; panel < last; ++panel) {
    const uint8_t* const in = b + panel * kInt8Panel * column_stride;
    uint8_t* const out = packed + panel * depth * kInt8Panel;
    const int64_t columns = least(kInt8Panel, n - panel * kInt8Panel);
    alignas(16) uint8_t rows[4][kInt8Panel] = {};
    for (int64_t p = 0; p < depth; p += 4) {
      const int64_t count = least(4, k - p);
      if (columns == kInt8Panel && column_stride == 1 && count == 4) {
        const V8 signs = hn::Set(d, sign);
        const auto row = [&](int64_t i) { return hn::Xor(hn::LoadU(d, in + (p + i) * row_stride), signs); };
        store_group(row(0), row(1), row(2), row(3), out + p * kInt8Panel);
        continue;
      }
#if TENON_VNNI
      if (row_stride == 1 && count == 4) {
        uint8_t* const to = out + p * kInt8Panel;
        for (int64_t j = 0; j < kInt8Panel; ++j) {
          const uint32_t word = j < columns ? load_word(in + j * column_stride + p) ^ (0x01010101u * sign) : 0;
          __builtin_memcpy(to + 4 * j, &word, sizeof word);
        }
        continue;
      }
#endif
      for (int64_t i = 0; i < 4; ++i)
        for (int64_t j = 0; j < kInt8Panel; ++j) {
          const bool present = i < count && j < columns;
          rows[i][j] = present ? static_cast<uint8_t>(in[(p + i) * row_stride + j * column_stride] ^ sign) : uint8_t{0};
        }
      store_group(hn::Load(d, rows[0]), hn::Load(d, rows[1]), hn::Load(d, rows[2]), hn::Load(d, rows[3]),
                  out + p * kInt8Panel);
    }
    if (sums != nullptr) sum_panel(out, depth, sums + panel * kInt8Panel);
  }
}

#define TENON_TEXT_INNER_(text) #text
#define TENON_TEXT_(text) TENON_TEXT_INNER_(text)

}  // namespace

extern const Int8Table int8_table;
const Int8Table int8_table = {TENON_TEXT_(TENON_ISA), &run, &pack, &pack_rows};
// The best table of a CPU with tiles: of the best set in this build, which may have none.
extern const Int8Table int8_amx_table;
#if TENON_AMX
const Int8Table int8_amx_table = {"avx512amx", &run_tiles, &pack, &pack_rows};
#else
const Int8Table int8_amx_table = int8_table;
#endif

}  // namespace tenon::cpu::TENON_ISA_NAMESPACE
