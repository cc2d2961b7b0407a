#include "ep/cpu/simd/depthwise_bytes.h"

#include "ep/cpu/simd/nearest.h"

namespace tenon::cpu::TENON_ISA_NAMESPACE {

namespace {

#if HWY_ARCH_X86
using D16 = hn::Repartition<int16_t, DI32>;
using D8 = hn::Rebind<uint8_t, D16>;
using V16 = hn::Vec<D16>;

// The sums of products of neighbours.
TENON_INLINE VI32 pair_products(V16 a, V16 b) {
#if HWY_MAX_BYTES >= 64
  return VI32{_mm512_madd_epi16(a.raw, b.raw)};
#elif HWY_MAX_BYTES >= 32
  return VI32{_mm256_madd_epi16(a.raw, b.raw)};
#else
  return VI32{_mm_madd_epi16(a.raw, b.raw)};
#endif
}

// Interleaving two taps, or the bytes of pairs with zeros, splits blocks of eight columns into fours, which packing
// puts together again.
struct Sums {
  VI32 lower, upper;

  TENON_INLINE void add(V16 low, V16 high, V16 weights) {
    lower = hn::Add(lower, pair_products(low, weights));
    upper = hn::Add(upper, pair_products(high, weights));
  }
};

// The weights of a tap and the next one in every pair of lanes.
TENON_INLINE V16 pair_of(const int16_t* weights) {
  int32_t both;
  __builtin_memcpy(&both, weights, sizeof both);
  return hn::BitCast(D16(), hn::Set(DI32(), both));
}

TENON_INLINE Sums sum_taps(const DepthwiseBytesTask& task, int64_t column) {
  const D16 d16;
  const D8 d8;
  const auto flip = hn::Set(d8, task.x_flip);
  const auto numbers = [&](int64_t tap) {
    return hn::PromoteTo(d16, hn::Xor(hn::LoadU(d8, task.x + task.offsets[tap] + column), flip));
  };
  Sums sums{hn::Set(DI32(), task.term), hn::Set(DI32(), task.term)};
  for (int64_t tap = 0; tap < task.taps; tap += 2) {
    const V16 a = numbers(tap), b = numbers(tap + 1);
    sums.add(hn::InterleaveLower(d16, a, b), hn::InterleaveUpper(d16, a, b), pair_of(task.weights + tap));
  }
  return sums;
}

// Pairs lie as the products want them.
TENON_INLINE Sums sum_pairs(const DepthwiseBytesTask& task, int64_t column) {
  const D16 d16;
  const hn::Repartition<uint8_t, D16> d8;
  const auto flip = hn::Set(d8, task.x_flip), zero = hn::Zero(d8);
  Sums sums{hn::Set(DI32(), task.term), hn::Set(DI32(), task.term)};
  for (int64_t pair = 0; 2 * pair < task.taps; ++pair) {
    const auto bytes = hn::Xor(hn::LoadU(d8, task.x + task.offsets[pair] + 2 * column), flip);
    sums.add(hn::BitCast(d16, hn::InterleaveLower(d8, bytes, zero)),
             hn::BitCast(d16, hn::InterleaveUpper(d8, bytes, zero)), pair_of(task.weights + 2 * pair));
  }
  return sums;
}

// Outputs of one vector of 16-bit numbers.
TENON_INLINE void store(const DepthwiseBytesTask& task, int64_t column, const Sums& sums) {
  const D16 d16;
  const D8 d8;
  const DF32 f;
  const auto rounded = [&](VI32 sum) {
    const VF32 steps = hn::MulAdd(hn::ConvertTo(f, sum), hn::Set(f, task.scale), hn::Set(f, task.bias));
    return nearest_small(hn::Max(hn::Min(steps, hn::Set(f, task.high)), hn::Set(f, task.low)));
  };
  const V16 steps = hn::SaturatedAdd(hn::ReorderDemote2To(d16, rounded(sums.lower), rounded(sums.upper)),
                                     hn::Set(d16, static_cast<int16_t>(task.zero)));
  hn::StoreU(hn::Xor(hn::DemoteTo(d8, steps), hn::Set(d8, task.y_flip)), d8, task.y + column);
}

void run(const DepthwiseBytesTask& task) {
  constexpr int64_t kColumns = 2 * kLanes;
  static_assert(kDepthwiseStep % kColumns == 0);
  if (task.in_pairs) {
    for (int64_t column = 0; column < task.count; column += kColumns) store(task, column, sum_pairs(task, column));
  } else {
    for (int64_t column = 0; column < task.count; column += kColumns) store(task, column, sum_taps(task, column));
  }
}
#else
void run(const DepthwiseBytesTask& task) {
  for (int64_t first = 0; first < task.count; first += kDepthwiseStep) {
    int32_t sums[kDepthwiseStep];
    for (int32_t& sum : sums) sum = task.term;
    for (int64_t tap = 0; tap < task.taps; ++tap) {
      const int64_t step = task.in_pairs ? 2 : 1;
      const uint8_t* const x =
          task.x + (task.in_pairs ? task.offsets[tap / 2] + tap % 2 : task.offsets[tap]) + step * first;
      const int32_t weight = task.weights[tap];
      for (int64_t j = 0; j < kDepthwiseStep; ++j) sums[j] += weight * (x[step * j] ^ task.x_flip);
    }
    for (int64_t j = 0; j < kDepthwiseStep; ++j) {
      float steps = static_cast<float>(sums[j]) * task.scale + task.bias;
      steps = steps < task.high ? steps : task.high;
      steps = steps > task.low ? steps : task.low;
      const int32_t q = static_cast<int32_t>(__builtin_nearbyintf(steps)) + task.zero;
      task.y[first + j] = static_cast<uint8_t>((q < 0 ? 0 : q > 255 ? 255 : q) ^ task.y_flip);
    }
  }
}
#endif

}  // namespace

extern const DepthwiseBytesTable depthwise_bytes_table;
const DepthwiseBytesTable depthwise_bytes_table = {&run};

}  // namespace tenon::cpu::TENON_ISA_NAMESPACE
