#include "ep/cpu/simd/sample.h"

#include "ep/cpu/simd/isa.h"

namespace tenon::cpu::TENON_ISA_NAMESPACE {

namespace {

// Compilers make masked gathers of these loops, where the instruction set has them. An element that is not there is not
// read: it could be an infinity, which times a weight of 0 is no 0.
inline float element(const float* __restrict x, int32_t offset) { return offset >= 0 ? x[offset] : 0.0f; }

template <bool first>
void add_taps(const float* __restrict x, const SampleTaps& taps, int k, float* __restrict y, int64_t count) {
  const int32_t* const __restrict a = taps.offset[k], * const __restrict b = taps.offset[k + 1], * const __restrict c = taps.offset[k + 2], * const __restrict d = taps.offset[k + 3];
  const float* const __restrict p = taps.weight[k], * const __restrict q = taps.weight[k + 1], * const __restrict r = taps.weight[k + 2], * const __restrict s = taps.weight[k + 3];
  for (int64_t i = 0; i < count; ++i) {
    const float sum =
        element(x, a[i]) * p[i] + element(x, b[i]) * q[i] + element(x, c[i]) * r[i] + element(x, d[i]) * s[i];
    y[i] = first ? sum : y[i] + sum;
  }
}

void weighted(const float* x, const SampleTaps& taps, float* y, int64_t count) {
  int k = 0;
  if (taps.taps >= 4) {
    add_taps<true>(x, taps, 0, y, count);
    for (k = 4; k + 4 <= taps.taps; k += 4) add_taps<false>(x, taps, k, y, count);
  } else {
    for (int64_t i = 0; i < count; ++i) y[i] = 0;
  }
  for (; k < taps.taps; ++k) {
    const int32_t* const __restrict offset = taps.offset[k];
    const float* const __restrict weight = taps.weight[k];
    float* const __restrict out = y;
    for (int64_t i = 0; i < count; ++i) out[i] += element(x, offset[i]) * weight[i];
  }
}

}  // namespace

extern const SampleTable sample_table;
const SampleTable sample_table = {&weighted};

}  // namespace tenon::cpu::TENON_ISA_NAMESPACE
