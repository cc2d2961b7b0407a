#include "ep/cpu/simd/int8.h"

#include "ep/cpu/simd/int8_finish.h"
#if TENON_AMX
#include "ep/cpu/simd/int8_amx.h"
#endif

namespace tenon::cpu::TENON_ISA_NAMESPACE {

namespace {

// --- the product ---

// The sum of row[p, ...) in steps of a vector, as far as there are whole ones; p moves on.
template <typename D>
TENON_INLINE uint64_t sum_of_vectors(D d, const uint8_t* row, uint8_t flip, int64_t k, int64_t& p) {
  const hn::Repartition<uint64_t, D> d64;
  const auto step = static_cast<int64_t>(hn::Lanes(d));
  if (p + step > k) return 0;
  const auto sign = hn::Set(d, flip);
  auto sums = hn::Zero(d64);
  for (; p + step <= k; p += step) sums = hn::Add(sums, hn::SumsOf8(hn::Xor(hn::LoadU(d, row + p), sign)));
  return hn::GetLane(hn::SumOfLanes(d64, sums));
}

int32_t sum_of_row(const uint8_t* row, uint8_t flip, int64_t k) {
  int64_t p = 0;
  uint64_t sum = sum_of_vectors(hn::CappedTag<uint8_t, 64>(), row, flip, k, p);
  sum += sum_of_vectors(hn::CappedTag<uint8_t, 16>(), row, flip, k, p);
  for (; p < k; ++p) sum += row[p] ^ flip;
  return static_cast<int32_t>(static_cast<uint32_t>(sum));
}

template <int kPanels>
TENON_INLINE void product_rows(int64_t rows, const TileElement* a, int64_t lda, const uint8_t* b, int64_t panel_stride,
                               int64_t k, int32_t* out) {
  switch (rows) {
    case 1:
      return product_tile<1, kPanels>(a, lda, b, panel_stride, k, out);
    case 2:
      return product_tile<2, kPanels>(a, lda, b, panel_stride, k, out);
#if HWY_MAX_BYTES >= 32
    case 3:
      return product_tile<3, kPanels>(a, lda, b, panel_stride, k, out);
    case 4:
      return product_tile<4, kPanels>(a, lda, b, panel_stride, k, out);
    case 5:
      return product_tile<5, kPanels>(a, lda, b, panel_stride, k, out);
    case 6:
      return product_tile<6, kPanels>(a, lda, b, panel_stride, k, out);
#endif
    default:
      return;
  }
}

// Panels of the next tile, where `left` are left.
TENON_INLINE int64_t tile_panels(int64_t left) {
  if (kInt8TilePanels == 1) return 1;
  return left >= 4 ? 4 : left >= 2 ? 2 : 1;
}

void product(int64_t rows, int64_t panels, const TileElement* a, int64_t lda, const uint8_t* b, int64_t panel_stride,
             int64_t k, int32_t* out) {
  if constexpr (kInt8TilePanels == 4) {
    if (panels == 4) return product_rows<4>(rows, a, lda, b, panel_stride, k, out);
    if (panels == 2) return product_rows<2>(rows, a, lda, b, panel_stride, k, out);
  }
  product_rows<1>(rows, a, lda, b, panel_stride, k, out);
}

// The last two tiles share what is left, because tiles of one or two rows leave the multipliers idle.
TENON_INLINE int64_t tile_rows(int64_t m, int64_t end) {
  const int64_t left = end - m;
  if (left <= kInt8TileRows) return left;
  if (left >= 2 * kInt8TileRows) return kInt8TileRows;
  return (left + 1) / 2;
}

// Rows of A that are not products' operands as they lie are staged in blocks of this depth, whose sums add up. A line
// more keeps rows apart in the cache.
constexpr int64_t kBlock = TENON_VNNI ? 2048 : 1024, kBlockStride = kBlock + 64;

void run(const Int8Task& task) {
  const Finisher finisher(task);
  const uint32_t flip = task.a_signed ? 0x80808080u : 0;
  const int64_t block = TENON_VNNI && flip == 0 ? task.k + 1 : kBlock;
  const bool sums_rows = task.column_factors != nullptr && task.row_factors == nullptr;
  alignas(64) int32_t sums[kInt8TileRows * kWidth] = {};
  alignas(64) int32_t block_sums[kInt8TileRows * kWidth] = {};
  alignas(64) TileElement staged[kInt8TileRows * kBlockStride];
  int32_t row_sums[kInt8TileRows] = {};
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
      for (int64_t k0 = 0; k0 == 0 || k0 < task.k; k0 += block) {
        const int64_t depth = least(block, task.k - k0);
        const TileElement* from = staged;
        int64_t lda = kBlockStride;
#if TENON_VNNI
        if (flip == 0) from = a, lda = task.lda;
#endif
        if (from == staged && (n == 0 || task.k > block))
          for (int64_t i = 0; i < rows; ++i) stage_row(a + i * task.lda + k0, flip, depth, staged + i * lda);
        product(rows, panels, from, lda, b + k0 * kInt8Panel, task.panel_stride, depth, k0 == 0 ? sums : block_sums);
        if (k0 == 0) continue;
        for (int64_t i = 0; i < rows * width; ++i)
          sums[i] = static_cast<int32_t>(static_cast<uint32_t>(sums[i]) + static_cast<uint32_t>(block_sums[i]));
      }
      finisher.finish(m, rows, n, least(width, task.n - n), width, row_sums, sums);
    }
  }
}

#if TENON_AMX
void run_tiles(const Int8Task& task) {
  if (task.m < kLeastTileRows || task.k < kLeastTileDepth) return run(task);
  const Finisher finisher(task);
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
      finisher.finish(m, rows, n, columns, kWidth, row_sums, sums);
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
  const auto at = [&](int64_t p, int v) {
    return hn::LoadU(d, reinterpret_cast<const int32_t*>(b + p * kInt8Panel) + v * kLanes);
  };
  for (int v = 0; v < kVectors; ++v) {
    // Each waits for the one before it.
    constexpr int kChains = 4;
    VI32 x[kChains] = {hn::Zero(d), hn::Zero(d), hn::Zero(d), hn::Zero(d)};
    int64_t p = 0;
    for (; p + 4 * kChains <= depth; p += 4 * kChains)
#pragma GCC unroll 4
      for (int i = 0; i < kChains; ++i) x[i] = dot4(x[i], ones, at(p + 4 * i, v));
    for (; p < depth; p += 4) x[0] = dot4(x[0], ones, at(p, v));
    hn::StoreU(hn::Add(hn::Add(x[0], x[1]), hn::Add(x[2], x[3])), d, sums + v * kLanes);
  }
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
const Int8Table int8_amx_table = {TENON_TEXT_(TENON_ISA), &run, &pack, &pack_rows};
#endif

}  // namespace tenon::cpu::TENON_ISA_NAMESPACE
