#include "ep/cpu/simd/convert.h"

#include "ep/cpu/simd/half8.h"
#include "ep/cpu/simd/transpose_blocks.h"

namespace tenon::cpu::TENON_ISA_NAMESPACE {

namespace {

template <typename T>
void widen(const uint16_t* x, float* y, int64_t n) {
  int64_t i = 0;
  for (; i + 2 * kWide <= n; i += 2 * kWide) {
    const FW a = T::load_wide(x + i), b = T::load_wide(x + i + kWide);
    store_wide(y + i, a);
    store_wide(y + i + kWide, b);
  }
  for (; i + 8 <= n; i += 8) store8(y + i, T::load8(x + i));
  for (; i < n; ++i) y[i] = T::decode(x[i]);
}

template <typename T>
void narrow(const float* x, uint16_t* y, int64_t n) {
  int64_t i = 0;
  for (; i + 2 * kWide <= n; i += 2 * kWide) {
    const FW a = load_wide(x + i), b = load_wide(x + i + kWide);
    T::store_wide(y + i, a);
    T::store_wide(y + i + kWide, b);
  }
  for (; i + 8 <= n; i += 8) T::store8(y + i, load8(x + i));
  for (; i < n; ++i) y[i] = T::encode(x[i]);
}

// Eight rows of eight become columns, by three rounds of interleaving.
TENON_INLINE void transpose8x8(const uint16_t* src, int64_t src_stride, uint16_t* dst, int64_t dst_stride) {
  const hn::FixedTag<uint16_t, 8> d16;
  const hn::FixedTag<uint32_t, 4> d32;
  const hn::FixedTag<uint64_t, 2> d64;
  hn::Vec<decltype(d16)> row[8];
  for (int i = 0; i < 8; ++i) row[i] = hn::LoadU(d16, src + i * src_stride);
  hn::Vec<decltype(d32)> pair[8];  // [i]: rows 2 * (i % 4) and the next one, low columns first
  for (int i = 0; i < 4; ++i) {
    pair[i] = hn::BitCast(d32, hn::InterleaveLower(d16, row[2 * i], row[2 * i + 1]));
    pair[i + 4] = hn::BitCast(d32, hn::InterleaveUpper(d16, row[2 * i], row[2 * i + 1]));
  }
  for (int half = 0; half < 2; ++half) {
    const auto* const p = pair + half * 4;
    const auto low01 = hn::BitCast(d64, hn::InterleaveLower(d32, p[0], p[1]));
    const auto low23 = hn::BitCast(d64, hn::InterleaveLower(d32, p[2], p[3]));
    const auto high01 = hn::BitCast(d64, hn::InterleaveUpper(d32, p[0], p[1]));
    const auto high23 = hn::BitCast(d64, hn::InterleaveUpper(d32, p[2], p[3]));
    uint16_t* const to = dst + half * 4 * dst_stride;
    hn::StoreU(hn::BitCast(d16, hn::InterleaveLower(d64, low01, low23)), d16, to);
    hn::StoreU(hn::BitCast(d16, hn::InterleaveUpper(d64, low01, low23)), d16, to + dst_stride);
    hn::StoreU(hn::BitCast(d16, hn::InterleaveLower(d64, high01, high23)), d16, to + 2 * dst_stride);
    hn::StoreU(hn::BitCast(d16, hn::InterleaveUpper(d64, high01, high23)), d16, to + 3 * dst_stride);
  }
}

TENON_INLINE void transpose4x4(const uint16_t* src, int64_t src_stride, uint16_t* dst, int64_t dst_stride) {
  const hn::FixedTag<uint16_t, 8> d;
  const hn::FixedTag<uint16_t, 4> part;
  const hn::Repartition<uint32_t, decltype(d)> pairs;
  const auto row = [&](int64_t i) { return hn::ZeroExtendVector(d, hn::LoadU(part, src + i * src_stride)); };
  const auto first = hn::BitCast(pairs, hn::InterleaveLower(d, row(0), row(1)));
  const auto last = hn::BitCast(pairs, hn::InterleaveLower(d, row(2), row(3)));
  const auto store = [&](auto two, uint16_t* to) {
    const auto columns = hn::BitCast(d, two);
    hn::StoreU(hn::LowerHalf(part, columns), part, to);
    hn::StoreU(hn::UpperHalf(part, columns), part, to + dst_stride);
  };
  store(hn::InterleaveLower(pairs, first, last), dst);
  store(hn::InterleaveUpper(pairs, first, last), dst + 2 * dst_stride);
}

void transpose16(const uint16_t* src, int64_t src_stride, uint16_t* dst, int64_t dst_stride, int64_t rows,
                 int64_t columns) {
  if (rows < 8 || columns < 8) {
    return transpose_blocks(
        src, src_stride, dst, dst_stride, rows, columns, 4, 4,
        [&](const uint16_t* from, uint16_t* to) { transpose4x4(from, src_stride, to, dst_stride); });
  }
  transpose_blocks(src, src_stride, dst, dst_stride, rows, columns, 8, 8,
                   [&](const uint16_t* from, uint16_t* to) { transpose8x8(from, src_stride, to, dst_stride); });
}

}  // namespace

extern const ConvertTable convert_table;
const ConvertTable convert_table = {&widen<Half>, &widen<Brain>, &narrow<Half>, &narrow<Brain>, &transpose16};

}  // namespace tenon::cpu::TENON_ISA_NAMESPACE
