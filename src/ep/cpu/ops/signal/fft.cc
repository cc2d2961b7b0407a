#include "ep/cpu/ops/signal/fft.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <utility>

#include "ep/cpu/simd/fft.h"

namespace tenon::cpu {

namespace {

// e^(-2 pi i k / n), for 0 <= k < n.
template <typename R>
void root_of_one(int64_t k, int64_t n, R& re, R& im) {
  const double angle = -2 * std::numbers::pi * static_cast<double>(k) / static_cast<double>(n);
  re = static_cast<R>(std::cos(angle));
  im = static_cast<R>(std::sin(angle));
}

// The radices whose product is `length`; empty if it has a larger prime factor.
std::vector<int64_t> radices_of(int64_t length) {
  std::vector<int64_t> radices;
  for (int64_t radix : {4, 2, 3, 5, 7, 11, 13}) {
    for (; length % radix == 0; length /= radix) radices.push_back(radix);
  }
  if (length != 1) radices.clear();
  return radices;
}

// The least length from `least` on that is a power of 2, or 3 or 5 times one.
int64_t smooth_length(int64_t least) {
  int64_t best = INT64_MAX;
  for (int64_t odd : {1, 3, 5}) {
    int64_t length = odd;
    while (length < least) length *= 2;
    best = std::min(best, length);
  }
  return best;
}

void run_stage(const FftStage<float>& stage) { fft_table().stage_f32(stage); }
void run_stage(const FftStage<double>& stage) { fft_table().stage_f64(stage); }

}  // namespace

// x[k] = chirp[k] * sum over t of (x[t] chirp[t]) * conj(chirp[k - t]), with chirp[k] = e^(-pi i k^2 / n): a
// convolution, which transforms of a longer length compute.
template <typename R>
struct Fft<R>::Chirp {
  Fft inner;
  std::vector<R> re, im;                    // [length]
  std::vector<R> spectrum_re, spectrum_im;  // [inner length] of the conjugate chirp, divided by the inner length

  explicit Chirp(int64_t length) : inner(smooth_length(2 * length - 1)), re(length), im(length) {
    const int64_t whole = inner.length();
    for (int64_t k = 0; k < length; ++k) {
      // k^2 modulo 2n, which the angle depends on: its precision would be lost otherwise.
      const auto square = static_cast<int64_t>(static_cast<unsigned __int128>(k) * k % (2 * length));
      root_of_one(square, 2 * length, re[k], im[k]);
    }
    std::vector<R> memory(inner.memory(1));
    const Parts chirp = inner.operand(memory.data(), 1);
    for (int64_t k = 0; k < whole; ++k) {
      const int64_t from = k < length ? k : whole - k < length ? whole - k : -1;
      chirp.re[k] = from < 0 ? R(0) : re[from];
      chirp.im[k] = from < 0 ? R(0) : -im[from];
    }
    const Parts spectrum = inner.run(chirp, memory.data(), 1);
    const R scale = R(1) / static_cast<R>(whole);
    for (int64_t k = 0; k < whole; ++k) {
      spectrum_re.push_back(spectrum.re[k] * scale);
      spectrum_im.push_back(spectrum.im[k] * scale);
    }
  }

  Parts run(Parts x, R* memory, int64_t rows) const {
    const auto length = static_cast<int64_t>(re.size()), whole = inner.length();
    const Parts padded = inner.operand(memory, rows);
    for (int64_t t = 0; t < whole; ++t) {
      const R cosine = t < length ? re[t] : R(0), sine = t < length ? im[t] : R(0);
      for (int64_t r = 0; r < rows; ++r) {
        const int64_t at = t * rows + r;
        const R p = t < length ? x.re[at] : R(0), q = t < length ? x.im[at] : R(0);
        padded.re[at] = p * cosine - q * sine;
        padded.im[at] = p * sine + q * cosine;
      }
    }
    const Parts spectrum = inner.run(padded, memory, rows);
    // The parts are exchanged for the way back; the operand of that lies where `padded` does, as the result may.
    const Parts back = inner.operand(memory, rows);
    for (int64_t k = 0; k < whole; ++k) {
      for (int64_t r = 0; r < rows; ++r) {
        const int64_t at = k * rows + r;
        const R p = spectrum.re[at], q = spectrum.im[at];
        back.im[at] = p * spectrum_re[k] - q * spectrum_im[k];
        back.re[at] = p * spectrum_im[k] + q * spectrum_re[k];
      }
    }
    const Parts sums = inner.run(back, memory, rows);
    for (int64_t k = 0; k < length; ++k) {
      for (int64_t r = 0; r < rows; ++r) {
        const int64_t at = k * rows + r;
        const R p = sums.im[at], q = sums.re[at];
        x.re[at] = p * re[k] - q * im[k];
        x.im[at] = p * im[k] + q * re[k];
      }
    }
    return x;
  }
};

template <typename R>
Fft<R>::Fft(int64_t length) : length_(length) {
  const std::vector<int64_t> radices = radices_of(length);
  if (radices.empty() && length > 1) {
    chirp_ = std::make_unique<Chirp>(length);
    return;
  }
  int64_t left = length;
  for (int64_t radix : radices) {
    const int64_t blocks = left / radix;
    Stage stage{
        .radix = radix, .blocks = blocks, .twiddles = std::vector<R>(2 * left), .roots = std::vector<R>(2 * radix)};
    for (int64_t q = 0; q < blocks; ++q) {
      for (int64_t k = 0; k < radix; ++k) {
        root_of_one(q * k, left, stage.twiddles[q * radix + k], stage.twiddles[left + q * radix + k]);
      }
    }
    for (int64_t k = 0; k < radix; ++k) root_of_one(k, radix, stage.roots[k], stage.roots[radix + k]);
    stages_.push_back(std::move(stage));
    left = blocks;
  }
}

template <typename R>
Fft<R>::~Fft() = default;
template <typename R>
Fft<R>::Fft(Fft&&) noexcept = default;

template <typename R>
int64_t Fft<R>::memory(int64_t rows) const {
  return chirp_ ? 2 * length_ * rows + chirp_->inner.memory(rows) : 4 * length_ * rows;
}

template <typename R>
typename Fft<R>::Parts Fft<R>::operand(R* memory, int64_t rows) const {
  return {memory, memory + length_ * rows};
}

template <typename R>
typename Fft<R>::Parts Fft<R>::run_stages(Parts from, Parts to, int64_t rows) const {
  int64_t stride = rows;
  for (const Stage& stage : stages_) {
    run_stage({.radix = stage.radix,
               .blocks = stage.blocks,
               .stride = stride,
               .re = from.re,
               .im = from.im,
               .out_re = to.re,
               .out_im = to.im,
               .twiddle_re = stage.twiddles.data(),
               .twiddle_im = stage.twiddles.data() + stage.twiddles.size() / 2,
               .root_re = stage.roots.data(),
               .root_im = stage.roots.data() + stage.radix});
    std::swap(from, to);
    stride *= stage.radix;
  }
  return from;
}

template <typename R>
typename Fft<R>::Parts Fft<R>::run(Parts operand, R* memory, int64_t rows) const {
  R* const rest = memory + 2 * length_ * rows;
  if (chirp_) return chirp_->run(operand, rest, rows);
  return run_stages(operand, {rest, rest + length_ * rows}, rows);
}

template class Fft<float>;
template class Fft<double>;

}  // namespace tenon::cpu
