#include "ep/cpu/simd/fft.h"

#include "ep/cpu/simd/isa.h"

namespace tenon::cpu::TENON_ISA_NAMESPACE {

namespace {

template <typename R>
struct Complex {
  R re, im;
};
template <typename R>
inline Complex<R> operator+(Complex<R> a, Complex<R> b) {
  return {a.re + b.re, a.im + b.im};
}
template <typename R>
inline Complex<R> operator-(Complex<R> a, Complex<R> b) {
  return {a.re - b.re, a.im - b.im};
}
template <typename R>
inline Complex<R> operator*(R a, Complex<R> b) {
  return {a * b.re, a * b.im};
}
template <typename R>
inline Complex<R> product(Complex<R> a, Complex<R> b) {
  return {a.re * b.re - a.im * b.im, a.re * b.im + a.im * b.re};
}
// a * -i
template <typename R>
inline Complex<R> turned(Complex<R> a) {
  return {a.im, -a.re};
}

// The transforms of the shortest lengths, in place.
template <typename R>
inline void butterfly(Complex<R> (&a)[2]) {
  const Complex<R> x = a[0], y = a[1];
  a[0] = x + y, a[1] = x - y;
}
template <typename R>
inline void butterfly(Complex<R> (&a)[3]) {
  const Complex<R> sum = a[1] + a[2], middle = a[0] - R(0.5) * sum;
  const Complex<R> side = turned(R(0.866025403784438646763723170752936183) * (a[1] - a[2]));
  a[0] = a[0] + sum, a[1] = middle + side, a[2] = middle - side;
}
template <typename R>
inline void butterfly(Complex<R> (&a)[4]) {
  const Complex<R> even = a[0] + a[2], difference = a[0] - a[2], odd = a[1] + a[3], side = turned(a[1] - a[3]);
  a[0] = even + odd, a[1] = difference + side, a[2] = even - odd, a[3] = difference - side;
}
template <typename R>
inline void butterfly(Complex<R> (&a)[5]) {
  constexpr R c1 = R(0.309016994374947424102293417182819059), c2 = R(-0.809016994374947424102293417182819059);
  constexpr R s1 = R(0.951056516295153572116439333379382143), s2 = R(0.587785252292473129168705954639072769);
  const Complex<R> p = a[1] + a[4], q = a[2] + a[3], u = a[1] - a[4], v = a[2] - a[3];
  const Complex<R> x = a[0] + c1 * p + c2 * q, y = a[0] + c2 * p + c1 * q;
  const Complex<R> s = turned(s1 * u + s2 * v), t = turned(s2 * u - s1 * v);
  a[0] = a[0] + p + q, a[1] = x + s, a[4] = x - s, a[2] = y + t, a[3] = y - t;
}

template <typename R, int kRadix>
void run_radix(const FftStage<R>& stage) {
  const int64_t blocks = stage.blocks, stride = stage.stride;
  for (int64_t q = 0; q < blocks; ++q) {
    Complex<R> twiddle[kRadix];
    for (int k = 0; k < kRadix; ++k) twiddle[k] = {stage.twiddle_re[q * kRadix + k], stage.twiddle_im[q * kRadix + k]};
    const R* const __restrict re = stage.re + q * stride, * const __restrict im = stage.im + q * stride;
    R* const __restrict out_re = stage.out_re + q * kRadix * stride, * const __restrict out_im =
                                                                         stage.out_im + q * kRadix * stride;
    for (int64_t r = 0; r < stride; ++r) {
      Complex<R> a[kRadix];
#pragma GCC unroll 8
      for (int j = 0; j < kRadix; ++j) a[j] = {re[j * blocks * stride + r], im[j * blocks * stride + r]};
      butterfly(a);
      out_re[r] = a[0].re, out_im[r] = a[0].im;
#pragma GCC unroll 8
      for (int k = 1; k < kRadix; ++k) {
        const Complex<R> b = product(a[k], twiddle[k]);
        out_re[k * stride + r] = b.re, out_im[k * stride + r] = b.im;
      }
    }
  }
}

template <typename R>
void run_any_radix(const FftStage<R>& stage) {
  const int64_t radix = stage.radix, blocks = stage.blocks, stride = stage.stride;
  for (int64_t q = 0; q < blocks; ++q) {
    for (int64_t k = 0; k < radix; ++k) {
      R* const __restrict out_re = stage.out_re + (q * radix + k) * stride, * const __restrict out_im =
                                                                                stage.out_im + (q * radix + k) * stride;
      for (int64_t r = 0; r < stride; ++r) out_re[r] = out_im[r] = 0;
      for (int64_t j = 0; j < radix; ++j) {
        const Complex<R> root = {stage.root_re[j * k % radix], stage.root_im[j * k % radix]};
        const Complex<R> twiddle = {stage.twiddle_re[q * radix + k], stage.twiddle_im[q * radix + k]};
        const Complex<R> factor = product(root, twiddle);
        const R* const __restrict re = stage.re + (j * blocks + q) * stride, * const __restrict im =
                                                                                 stage.im + (j * blocks + q) * stride;
        for (int64_t r = 0; r < stride; ++r) {
          out_re[r] += re[r] * factor.re - im[r] * factor.im;
          out_im[r] += re[r] * factor.im + im[r] * factor.re;
        }
      }
    }
  }
}

template <typename R>
void run_stage(const FftStage<R>& stage) {
  switch (stage.radix) {
    case 2:
      return run_radix<R, 2>(stage);
    case 3:
      return run_radix<R, 3>(stage);
    case 4:
      return run_radix<R, 4>(stage);
    case 5:
      return run_radix<R, 5>(stage);
    default:
      return run_any_radix(stage);
  }
}

}  // namespace

extern const FftTable fft_table;
const FftTable fft_table = {&run_stage<float>, &run_stage<double>};

}  // namespace tenon::cpu::TENON_ISA_NAMESPACE
