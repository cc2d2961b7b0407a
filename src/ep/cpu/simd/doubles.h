// Loops of one thread over float64, and reductions of float32 that are computed in it.
#pragma once

#include <cstdint>

namespace tenon::cpu {

enum class WideReduction : uint8_t { kSum, kMax, kMin, kSumSquare, kL1, kProd };
inline constexpr int kWideReductionCount = static_cast<int>(WideReduction::kProd) + 1;

enum class DoubleOp : uint8_t {
  kAdd,
  kSub,
  kMul,
  kDiv,
  kMax,
  kMin,
  kEqual,
  kLess,
  kLessOrEqual,
  kGreater,
  kGreaterOrEqual
};
inline constexpr int kDoubleOpCount = static_cast<int>(DoubleOp::kGreaterOrEqual) + 1;

struct DoubleTable {
  // y = a op b, where b has stride 0 or 1. A NaN makes a maximum or a minimum NaN. y holds bytes of 0 and 1 for
  // comparisons; it may be a or b.
  void (*binary[kDoubleOpCount])(const double* a, const double* b, int64_t b_stride, void* y, int64_t n);
  // One value for each row of n contiguous ones. A NaN makes a maximum or a minimum NaN.
  void (*reduce_rows[kWideReductionCount])(const double* x, double* y, int64_t rows, int64_t n);
  // y[column] over x[n][inner], columns [first, last).
  void (*reduce_columns[kWideReductionCount])(const double* x, double* y, int64_t n, int64_t inner, int64_t first,
                                              int64_t last);
  // Products of float32, rounded at their end.
  void (*product_rows)(const float* x, float* y, int64_t rows, int64_t n);
  void (*product_columns)(const float* x, float* y, int64_t n, int64_t inner, int64_t first, int64_t last);
  // y may be x.
  void (*roots)(const double* x, double* y, int64_t n);
  // To whole numbers: down, up, to the nearest one (ties to even). y may be x.
  void (*floors)(const double* x, double* y, int64_t n);
  void (*ceilings)(const double* x, double* y, int64_t n);
  void (*nearest)(const double* x, double* y, int64_t n);
  // Within three units in the last place. y may be x.
  void (*tanh)(const double* x, double* y, int64_t n);
  // y = e^x, within two units in the last place. y may be x.
  void (*powers)(const double* x, double* y, int64_t n);
  // The natural logarithm within a unit in the last place; 1 / (1 + e^-x) within four; the sine and the cosine within
  // one, the tangent within three. y may be x.
  void (*logs)(const double* x, double* y, int64_t n);
  void (*sigmoids)(const double* x, double* y, int64_t n);
  void (*sines)(const double* x, double* y, int64_t n);
  void (*cosines)(const double* x, double* y, int64_t n);
  void (*tangents)(const double* x, double* y, int64_t n);
  // y = e^(x - top), and the sum of these; x is no more than top. y may be x.
  double (*exponentials)(const double* x, double* y, int64_t n, double top);
  // y = x * factor. y may be x.
  void (*scale)(const double* x, double* y, int64_t n, double factor);
  // y[i * axes + d] = slope[d] * x[i] + base[d] in float32, for one, two or three axes.
  void (*affine_line)(const double* x, int64_t n, const double* slope, const double* base, int64_t axes, float* y);
  // Float32 whose last bit is set where it is not exact, so that rounding it to 16 bits rounds as if only once.
  void (*round_to_odd)(const double* x, float* y, int64_t n);
  void (*float_from_double)(const double* x, float* y, int64_t n);
  void (*double_from_float)(const float* x, double* y, int64_t n);
  void (*double_from_int64)(const int64_t* x, double* y, int64_t n);
  // They cut fractions off; the lowest integer for NaN and what does not fit.
  void (*int32_from_double)(const double* x, int32_t* y, int64_t n);
  void (*int64_from_double)(const double* x, int64_t* y, int64_t n);
};

const DoubleTable& double_table();

}  // namespace tenon::cpu
