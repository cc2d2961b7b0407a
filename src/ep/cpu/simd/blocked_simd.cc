#include "ep/cpu/simd/blocked.h"

#include "ep/cpu/simd/epilogue.h"
#include "ep/cpu/simd/halves.h"
#include "ep/cpu/simd/tail8.h"
#include "ep/cpu/simd/transpose8.h"

namespace tenon::cpu::TENON_ISA_NAMESPACE {
namespace {

constexpr int kPixels = kWide / 8;  // of one vector

// Keeps the first `lanes` of 8 and makes the others zero, even where they are NaN.
struct LaneMask {
  float keep[8];
  explicit LaneMask(int lanes) {
    for (int i = 0; i < 8; ++i) keep[i] = i < lanes ? 1.0f : 0.0f;
  }
  TENON_INLINE F8 operator()(F8 x) const { return select_lt8(zero8(), load8(keep), x, zero8()); }
};

void activate(const Epilogue& epilogue, const float* x, const float* residual, float* y, int64_t pixels, int lanes) {
  with_activation(epilogue.activation, [&]<Activation kKind>() {
    int64_t i = 0;
    if (lanes == 8) {
      const FW alpha = splat<FW>(epilogue.alpha), beta = splat<FW>(epilogue.beta);
      // Two independent chains hide the latency of the polynomials.
      for (; i + 2 * kPixels <= pixels; i += 2 * kPixels) {
        const int64_t at = i * 8, next = at + kWide;
        FW a = activate8<kKind>(load_as<FW>(x + at), alpha, beta);
        FW b = activate8<kKind>(load_as<FW>(x + next), alpha, beta);
        if (residual != nullptr) a = a + load_as<FW>(residual + at), b = b + load_as<FW>(residual + next);
        store8(y + at, a), store8(y + next, b);
      }
    }
    const F8 alpha = set8(epilogue.alpha), beta = set8(epilogue.beta);
    const LaneMask mask(lanes);
    for (; i < pixels; ++i) {
      F8 a = activate8<kKind>(load8(x + i * 8), alpha, beta);
      if (residual != nullptr) a = a + load8(residual + i * 8);
      store8(y + i * 8, mask(a));
    }
  });
}

template <BinaryKind kKind, typename V>
TENON_INLINE V apply(V a, V b) {
  if constexpr (kKind == BinaryKind::kAdd) return a + b;
  if constexpr (kKind == BinaryKind::kSub) return a - b;
  if constexpr (kKind == BinaryKind::kMul) return a * b;
  if constexpr (kKind == BinaryKind::kDiv) return a / b;
  if constexpr (kKind == BinaryKind::kMin) return min_or_nan8(a, b);
  if constexpr (kKind == BinaryKind::kPRelu) return select_lt8(a, splat<V>(0), a * b, a);
  return max_or_nan8(a, b);
}

template <BinaryKind kKind>
void binary_of(const Epilogue& epilogue, const float* a, int64_t a_step, const float* b, int64_t b_step, float* y,
               int64_t pixels, int lanes) {
  if (epilogue.activation == Activation::kNone && lanes == 8) {
    int64_t i = 0;
    for (; i + kPixels <= pixels; i += kPixels) {
      const FW left = a_step == 0 ? repeat8<FW>(a) : load_as<FW>(a + i * 8);
      const FW right = b_step == 0 ? repeat8<FW>(b) : load_as<FW>(b + i * 8);
      store8(y + i * 8, apply<kKind>(left, right));
    }
    for (; i < pixels; ++i) store8(y + i * 8, apply<kKind>(load8(a + i * a_step), load8(b + i * b_step)));
    return;
  }
  const F8 alpha = set8(epilogue.alpha), beta = set8(epilogue.beta);
  const LaneMask mask(lanes);
  with_activation(epilogue.activation, [&]<Activation kActivation>() {
    for (int64_t i = 0; i < pixels; ++i) {
      const F8 z = apply<kKind>(load8(a + i * a_step), load8(b + i * b_step));
      store8(y + i * 8, mask(activate8<kActivation>(z, alpha, beta)));
    }
  });
}

void binary(BinaryKind kind, const Epilogue& epilogue, const float* a, int64_t a_step, const float* b, int64_t b_step,
            float* y, int64_t pixels, int lanes) {
  switch (kind) {
    case BinaryKind::kAdd:
      return binary_of<BinaryKind::kAdd>(epilogue, a, a_step, b, b_step, y, pixels, lanes);
    case BinaryKind::kSub:
      return binary_of<BinaryKind::kSub>(epilogue, a, a_step, b, b_step, y, pixels, lanes);
    case BinaryKind::kMul:
      return binary_of<BinaryKind::kMul>(epilogue, a, a_step, b, b_step, y, pixels, lanes);
    case BinaryKind::kDiv:
      return binary_of<BinaryKind::kDiv>(epilogue, a, a_step, b, b_step, y, pixels, lanes);
    case BinaryKind::kMin:
      return binary_of<BinaryKind::kMin>(epilogue, a, a_step, b, b_step, y, pixels, lanes);
    case BinaryKind::kMax:
      return binary_of<BinaryKind::kMax>(epilogue, a, a_step, b, b_step, y, pixels, lanes);
    case BinaryKind::kPRelu:
      return binary_of<BinaryKind::kPRelu>(epilogue, a, a_step, b, b_step, y, pixels, lanes);
  }
}

void to_blocked(const float* x, int64_t plane, int channels, float* y, int64_t pixels) {
  int64_t i = 0;
#ifdef __AVX__
  for (; channels == 8 && i + 8 <= pixels; i += 8) transpose8(x + i, plane, y + i * 8, 8);
  for (; i + 8 <= pixels; i += 8) {
    __m256 r[8];
    for (int c = 0; c < 8; ++c) r[c] = c < channels ? _mm256_loadu_ps(x + c * plane + i) : _mm256_setzero_ps();
    transpose8(r);
    for (int c = 0; c < 8; ++c) _mm256_storeu_ps(y + (i + c) * 8, r[c]);
  }
#endif
  for (; i < pixels; ++i)
    for (int c = 0; c < 8; ++c) y[i * 8 + c] = c < channels ? x[c * plane + i] : 0.0f;
}

void to_plain(const float* x, float* y, int64_t plane, int channels, int64_t pixels) {
  int64_t i = 0;
#ifdef __AVX__
  for (; channels == 8 && i + 8 <= pixels; i += 8) transpose8(x + i * 8, 8, y + i, plane);
  for (; i + 8 <= pixels; i += 8) {
    __m256 r[8];
    for (int c = 0; c < 8; ++c) r[c] = _mm256_loadu_ps(x + (i + c) * 8);
    transpose8(r);
    for (int c = 0; c < 8; ++c)
      if (c < channels) _mm256_storeu_ps(y + c * plane + i, r[c]);
  }
#endif
  for (; i < pixels; ++i)
    for (int c = 0; c < channels; ++c) y[c * plane + i] = x[i * 8 + c];
}

void from_channels_last(const float* x, int64_t stride, int channels, float* y, int64_t pixels) {
  if (channels == 8)
    for (int64_t i = 0; i < pixels; ++i) store8(y + i * 8, load8(x + i * stride));
  else
    for (int64_t i = 0; i < pixels; ++i) store8(y + i * 8, load_part8(x + i * stride, channels, 0.0f));
}

void to_channels_last(const float* x, float* y, int64_t stride, int channels, int64_t pixels) {
  if (channels == 8)
    for (int64_t i = 0; i < pixels; ++i) store8(y + i * stride, load8(x + i * 8));
  else
    for (int64_t i = 0; i < pixels; ++i) store_part8(y + i * stride, channels, load8(x + i * 8));
}

// The sum of what `term` makes of vectors of pixels. Long sums are made of sums of 256 pixels: a single chain would
// lose digits on large maps.
template <typename Term>
TENON_INLINE void sum_of(const float* x, int64_t pixels, float* y, const Term& term) {
  F8 total = zero8();
  for (int64_t first = 0; first < pixels; first += 256) {
    const int64_t n = pixels - first < 256 ? pixels - first : 256;
    const float* p = x + first * 8;
    F8 part[4] = {zero8(), zero8(), zero8(), zero8()};
    int64_t i = 0;
    for (; i + 4 <= n; i += 4) {
#pragma GCC unroll 4
      for (int k = 0; k < 4; ++k) part[k] = term(load8(p + (i + k) * 8), part[k]);
    }
    for (; i < n; ++i) part[0] = term(load8(p + i * 8), part[0]);
    total = total + ((part[0] + part[1]) + (part[2] + part[3]));
  }
  store8(y, total);
}

void sum(const float* x, int64_t pixels, float* y) {
  sum_of(x, pixels, y, [](F8 value, F8 before) { return before + value; });
}

void squares(const float* x, int64_t pixels, const float* mean, float* y) {
  const F8 centre = load8(mean);
  sum_of(x, pixels, y, [centre](F8 value, F8 before) {
    const F8 d = value - centre;
    return fma8(d, d, before);
  });
}

void standardise(const float* x, int64_t pixels, const float* mean, const float* factor, const float* offset,
                 float* y) {
  const FW m = repeat8<FW>(mean), f = repeat8<FW>(factor), o = repeat8<FW>(offset);
  int64_t i = 0;
  for (; i + kPixels <= pixels; i += kPixels) store_wide(y + i * 8, fma8(load_wide(x + i * 8) - m, f, o));
  for (; i < pixels; ++i) store8(y + i * 8, fma8(load8(x + i * 8) - load8(mean), load8(factor), load8(offset)));
}

void maximum(const float* x, int64_t pixels, float* y) {
  F8 best = load8(x);
  for (int64_t i = 1; i < pixels; ++i) best = max_or_nan8(best, load8(x + i * 8));
  store8(y, best);
}

}  // namespace

extern const BlockedTable blocked_table;
const BlockedTable blocked_table = {&activate,         &binary, &to_blocked, &to_plain, &from_channels_last,
                                    &to_channels_last, &sum,    &maximum,    &squares,  &standardise};

}  // namespace tenon::cpu::TENON_ISA_NAMESPACE
