// Stages of a fast Fourier transform (Stockham's form): real and imaginary parts in arrays of their own.
#pragma once

#include <cstdint>

namespace tenon::cpu {

// One stage of radix `radix` over `blocks` blocks: x[radix][blocks][stride] becomes y[blocks][radix][stride]. Twiddles
// are [blocks][radix]; `roots` are the radix-th roots of one (for radices without a formula of their own).
template <typename R>
struct FftStage {
  int64_t radix = 2, blocks = 1, stride = 1;
  const R *re = nullptr, *im = nullptr;
  R *out_re = nullptr, *out_im = nullptr;
  const R *twiddle_re = nullptr, *twiddle_im = nullptr;
  const R *root_re = nullptr, *root_im = nullptr;
};
// Radices that a stage takes.
inline constexpr int64_t kMostRadix = 13;

struct FftTable {
  void (*stage_f32)(const FftStage<float>& stage);
  void (*stage_f64)(const FftStage<double>& stage);
};

const FftTable& fft_table();

}  // namespace tenon::cpu
