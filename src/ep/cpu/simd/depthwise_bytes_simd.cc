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

// Outputs of one vector of 16-bit numbers. Interleaving two taps splits blocks of eight columns into fours, which
// packing puts together again.
TENON_INLINE void run_vector(const DepthwiseBytesTask& task, int64_t column) {
  const D16 d16;
  const D8 d8;
  const DI32 d32;
  const DF32 f;
  const auto numbers = [&](int64_t tap) {
    const auto bytes = hn::LoadU(d8, task.x + task.offsets[tap] + column);
    return hn::PromoteTo(d16, hn::Xor(bytes, hn::Set(d8, task.x_flip)));
  };
  VI32 lower = hn::Set(d32, task.term), upper = lower;
  for (int64_t tap = 0; tap < task.taps; tap += 2) {
    const int64_t other = tap + 1 < task.taps ? tap + 1 : tap;
    const uint32_t second = other > tap ? static_cast<uint16_t>(task.weights[other]) : 0;
    const auto pair = static_cast<int32_t>(second << 16 | static_cast<uint16_t>(task.weights[tap]));
    const V16 weights = hn::BitCast(d16, hn::Set(d32, pair)), a = numbers(tap), b = numbers(other);
    lower = hn::Add(lower, pair_products(hn::InterleaveLower(d16, a, b), weights));
    upper = hn::Add(upper, pair_products(hn::InterleaveUpper(d16, a, b), weights));
  }
  const auto rounded = [&](VI32 sum) {
    const VF32 steps = hn::MulAdd(hn::ConvertTo(f, sum), hn::Set(f, task.scale), hn::Set(f, task.bias));
    return nearest_small(hn::Max(hn::Min(steps, hn::Set(f, task.high)), hn::Set(f, task.low)));
  };
  const V16 steps = hn::SaturatedAdd(hn::ReorderDemote2To(d16, rounded(lower), rounded(upper)),
                                     hn::Set(d16, static_cast<int16_t>(task.zero)));
  hn::StoreU(hn::Xor(hn::DemoteTo(d8, steps), hn::Set(d8, task.y_flip)), d8, task.y + column);
}

void run(const DepthwiseBytesTask& task) {
  constexpr int64_t kColumns = 2 * kLanes;
  static_assert(kDepthwiseStep % kColumns == 0);
  for (int64_t column = 0; column < task.count; column += kColumns) run_vector(task, column);
}
#else
void run(const DepthwiseBytesTask& task) {
  for (int64_t first = 0; first < task.count; first += kDepthwiseStep) {
    int32_t sums[kDepthwiseStep];
    for (int32_t& sum : sums) sum = task.term;
    for (int64_t tap = 0; tap < task.taps; ++tap) {
      const uint8_t* const x = task.x + task.offsets[tap] + first;
      const int32_t weight = task.weights[tap];
      for (int64_t j = 0; j < kDepthwiseStep; ++j) sums[j] += weight * (x[j] ^ task.x_flip);
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
