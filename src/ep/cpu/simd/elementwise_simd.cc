#include "ep/cpu/simd/elementwise.h"

#include "ep/cpu/simd/epilogue.h"
#include "ep/cpu/simd/transpose4.h"
#include "ep/cpu/simd/transpose_blocks.h"

namespace tenon::cpu::TENON_ISA_NAMESPACE {

namespace {

template <Unary kOp>
void unary(const float* x, float* y, int64_t n, float alpha, float beta) {
  const FW a = set_wide(alpha), b = set_wide(beta);
  int64_t i = 0;
  for (; i + kWide <= n; i += kWide) store_wide(y + i, apply8<kOp>(load_wide(x + i), a, b));
  if (i < n) store_part_wide(y + i, n - i, apply8<kOp>(load_part_wide(x + i, n - i, 0), a, b));
}

template <Binary kOp>
TENON_INLINE FW binary_of(FW a, FW b) {
  switch (kOp) {
    case Binary::kAdd:
      return a + b;
    case Binary::kSub:
      return a - b;
    case Binary::kMul:
      return a * b;
    case Binary::kDiv:
      return a / b;
    case Binary::kMax:
      return max_or_nan8(a, b);
    case Binary::kMin:
      return min_or_nan8(a, b);
    case Binary::kPRelu:
      return select_lt8(a, zero_wide(), a * b, a);
  }
  return a;
}

template <Binary kOp, bool kScalarA, bool kScalarB>
TENON_INLINE void binary_loop(const float* a, const float* b, float* y, int64_t n) {
  const FW sa = set_wide(a[0]), sb = set_wide(b[0]);
  int64_t i = 0;
  for (; i + kWide <= n; i += kWide)
    store_wide(y + i, binary_of<kOp>(kScalarA ? sa : load_wide(a + i), kScalarB ? sb : load_wide(b + i)));
  if (i < n)
    store_part_wide(y + i, n - i,
                    binary_of<kOp>(kScalarA ? sa : load_part_wide(a + i, n - i, 1),
                                   kScalarB ? sb : load_part_wide(b + i, n - i, 1)));
}

template <Binary kOp>
void binary(const float* a, int64_t a_stride, const float* b, int64_t b_stride, float* y, int64_t n) {
  if (n == 0) return;
  if (a_stride == 0) return binary_loop<kOp, true, false>(a, b, y, n);
  if (b_stride == 0) return binary_loop<kOp, false, true>(a, b, y, n);
  binary_loop<kOp, false, false>(a, b, y, n);
}

void transpose32(const uint32_t* src, int64_t src_stride, uint32_t* dst, int64_t dst_stride, int64_t rows,
                 int64_t columns) {
  const auto* const from = reinterpret_cast<const float*>(src);
  auto* const to = reinterpret_cast<float*>(dst);
  transpose_blocks(from, src_stride, to, dst_stride, rows, columns, 4, 4,
                   [&](const float* tile, float* out) { transpose4x4(tile, src_stride, out, dst_stride); });
}

void transpose64(const uint64_t* src, int64_t src_stride, uint64_t* dst, int64_t dst_stride, int64_t rows,
                 int64_t columns) {
  constexpr int kSide = 4;
  const hn::FixedTag<uint64_t, 2> d;
  transpose_blocks(src, src_stride, dst, dst_stride, rows, columns, kSide, kSide,
                   [&](const uint64_t* from, uint64_t* to) {
                     for (int i = 0; i < kSide; i += 2) {
                       for (int j = 0; j < kSide; j += 2) {
                         const auto a = hn::LoadU(d, from + i * src_stride + j);
                         const auto b = hn::LoadU(d, from + (i + 1) * src_stride + j);
                         hn::StoreU(hn::InterleaveLower(d, a, b), d, to + j * dst_stride + i);
                         hn::StoreU(hn::InterleaveUpper(d, a, b), d, to + (j + 1) * dst_stride + i);
                       }
                     }
                   });
}

template <typename From>
void float_from(const From* x, float* y, int64_t n) {
  for (int64_t i = 0; i < n; ++i) y[i] = static_cast<float>(x[i]);
}

template <typename To>
void from_float(const float* x, To* y, int64_t n) {
  constexpr int kBits = sizeof(To) * 8 - 1;
  constexpr auto kLimit = static_cast<float>(uint64_t{1} << kBits);
  constexpr auto kLowest = static_cast<To>(uint64_t{1} << kBits);
  for (int64_t i = 0; i < n; ++i) y[i] = x[i] >= -kLimit && x[i] < kLimit ? static_cast<To>(x[i]) : kLowest;
}

}  // namespace

#define TENON_LOOP_(Name, ...) &unary<Unary::k##Name>,
extern const EltwiseTable eltwise_table;
const EltwiseTable eltwise_table = {
    {TENON_ACTIVATIONS(TENON_LOOP_) TENON_VECTOR_FUNCTIONS(TENON_LOOP_)},
    {&binary<Binary::kAdd>, &binary<Binary::kSub>, &binary<Binary::kMul>, &binary<Binary::kDiv>, &binary<Binary::kMax>,
     &binary<Binary::kMin>, &binary<Binary::kPRelu>},
    &transpose32,
    &transpose64,
    &float_from<int64_t>,
    &float_from<int32_t>,
    &float_from<uint8_t>,
    &from_float<int64_t>,
    &from_float<int32_t>};
#undef TENON_LOOP_

}  // namespace tenon::cpu::TENON_ISA_NAMESPACE
