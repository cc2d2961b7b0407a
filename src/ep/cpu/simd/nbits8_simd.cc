#include "ep/cpu/simd/nbits8.h"

#include "ep/cpu/simd/int8_tile.h"

namespace tenon::cpu::TENON_ISA_NAMESPACE {

#if TENON_VNNI
namespace {

constexpr int kMostRows = kLanes == 16 ? 4 : 2;
using DB = hn::Rebind<uint8_t, DI32>;

// One panel's products for kRows rows; `c` gets 16 columns of each.
template <int kRows>
void multiply_panel(const NBits8Task& t, const int8_t* a, const float* a_scales, const float* a_sums,
                    const uint8_t* panel, float* c) {
  const NBitsFormat& f = t.format;
  const DI32 d;
  const DF32 df;
  const VI32 low_bits = hn::Set(d, 0x0f0f0f0f);
  VF32 total[kRows][kVectors];
#pragma GCC unroll 4
  for (int r = 0; r < kRows; ++r)
    for (int v = 0; v < kVectors; ++v) total[r][v] = hn::Zero(df);
  for (int64_t b = 0; b < f.blocks; ++b) {
    const uint8_t* const block = panel + b * f.block_bytes();
    const uint8_t* bytes = block + f.head_bytes();
    const int8_t* row = a + b * f.block_size;
    // Two sums each: a dot product waits for the one before it.
    VI32 sums[kRows][kVectors], others[kRows][kVectors];
#pragma GCC unroll 4
    for (int r = 0; r < kRows; ++r)
      for (int v = 0; v < kVectors; ++v) sums[r][v] = others[r][v] = hn::Zero(d);
    for (int64_t k = 0; k < f.block_size; k += 8, row += 8, bytes += 4 * kNBitsPanel) {
#pragma GCC unroll 2
      for (int v = 0; v < kVectors; ++v) {
        const VI32 word = hn::LoadU(d, reinterpret_cast<const int32_t*>(bytes) + v * kLanes);
        const VI32 low = hn::And(word, low_bits), high = hn::And(hn::ShiftRight<4>(word), low_bits);
#pragma GCC unroll 4
        for (int r = 0; r < kRows; ++r) {
          const int8_t* const x = row + r * t.lda;
          sums[r][v] = dot4(sums[r][v], low, hn::Set(d, static_cast<int32_t>(load_word(x))));
          others[r][v] = dot4(others[r][v], high, hn::Set(d, static_cast<int32_t>(load_word(x + 4))));
        }
      }
    }
#pragma GCC unroll 2
    for (int v = 0; v < kVectors; ++v) {
      const VF32 scale = hn::LoadU(df, reinterpret_cast<const float*>(block) + v * kLanes);
      const auto zero = f.zero_points
                            ? hn::ConvertTo(df, hn::PromoteTo(d, hn::LoadU(DB(), block + 4 * kNBitsPanel + v * kLanes)))
                            : hn::Set(df, 8.0f);
#pragma GCC unroll 4
      for (int r = 0; r < kRows; ++r) {
        const VF32 from_zero = hn::NegMulAdd(zero, hn::Set(df, a_sums[r * f.blocks + b]),
                                             hn::ConvertTo(df, hn::Add(sums[r][v], others[r][v])));
        total[r][v] = hn::MulAdd(hn::Mul(scale, hn::Set(df, a_scales[r * f.blocks + b])), from_zero, total[r][v]);
      }
    }
  }
#pragma GCC unroll 4
  for (int r = 0; r < kRows; ++r)
    for (int v = 0; v < kVectors; ++v) hn::StoreU(total[r][v], df, c + r * kNBitsPanel + v * kLanes);
}

void multiply_rows(const NBits8Task& t, int64_t rows, const int8_t* a, const float* scales, const float* sums,
                   const uint8_t* panel, float* c) {
#if HWY_MAX_BYTES >= 64
  if (rows == 4) return multiply_panel<4>(t, a, scales, sums, panel, c);
  if (rows == 3) return multiply_panel<3>(t, a, scales, sums, panel, c);
#endif
  if (rows == 2) return multiply_panel<2>(t, a, scales, sums, panel, c);
  multiply_panel<1>(t, a, scales, sums, panel, c);
}

void run(const NBits8Task& t) {
  const int64_t blocks = t.format.blocks;
  for (int64_t first = 0; first < t.n; first += kNBitsPanel) {
    const int64_t columns = t.n - first < kNBitsPanel ? t.n - first : kNBitsPanel;
    const uint8_t* const panel = t.b + first / kNBitsPanel * t.format.panel_bytes();
    for (int64_t i = 0; i < t.m; i += kMostRows) {
      const int64_t rows = t.m - i < kMostRows ? t.m - i : kMostRows;
      alignas(64) float tile[kMostRows * kNBitsPanel];
      multiply_rows(t, rows, t.a + i * t.lda, t.scales + i * blocks, t.sums + i * blocks, panel, tile);
      for (int64_t r = 0; r < rows; ++r) {
        float* const c = t.c + (i + r) * t.ldc + first;
        for (int64_t j = 0; j < columns; ++j) {
          c[j] = tile[r * kNBitsPanel + j] + (t.bias != nullptr ? t.bias[first + j] : 0.0f);
        }
      }
    }
  }
}

void quantize(const float* a, int64_t block_size, int64_t blocks, int8_t* bytes, float* scales, float* sums) {
  for (int64_t b = 0; b < blocks; ++b, a += block_size, bytes += block_size) {
    F8 most = zero8();
    for (int64_t k = 0; k < block_size; k += 8) most = max8(most, abs8(load8(a + k)));
    const float largest = maximum8(most);
    scales[b] = largest / 127.0f;
    const F8 inverse = set8(largest > 0 ? 127.0f / largest : 0.0f);
    F8 sum = zero8();
    for (int64_t k = 0; k < block_size; k += 8) {
      const F8 whole = round8(load8(a + k) * inverse);
      sum = sum + whole;
      hn::StoreU(hn::DemoteTo(hn::Rebind<int8_t, DF>(), hn::ConvertTo(DI(), whole.v)), hn::Rebind<int8_t, DF>(),
                 bytes + k);
    }
    sums[b] = sum8(sum);
  }
}

}  // namespace

extern const NBits8Table nbits8_table;
const NBits8Table nbits8_table = {&run, &quantize};
#else
extern const NBits8Table nbits8_table;
const NBits8Table nbits8_table = {nullptr, nullptr};
#endif

}  // namespace tenon::cpu::TENON_ISA_NAMESPACE
