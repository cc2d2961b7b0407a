// Loops over lines of numbers, of one thread: running sums, places of extremes, rows that are standardised.
#pragma once

#include <cstdint>

namespace tenon::cpu {

// TopK of n lines beside each other, whose elements are `step` apart: 1 to kMostTop of 1 to kTopLines lines. T is a
// signed integer as large as an element. Elements come first whose keys are larger, of equal ones the first. The key of
// an integer is its bits, exclusive or `flip`; for a float, whose bits without the sign are in `magnitude` (of an
// integer 0), those of negative ones are turned round before. All its NaNs are one, above every number before they are
// flipped, and so are zeros.
template <typename T>
struct TopLines {
  const T* x = nullptr;
  int64_t step = 0, length = 0, n = 0, k = 0;
  T magnitude = 0, infinity = 0, flip = 0;
  T* order = nullptr;  // order[j * kTopLines + l]: where element j of line l was
};
inline constexpr int64_t kTopLines = 16;
inline constexpr int64_t kMostTop = 32;

struct LineTable {
  // Running sums of n lines beside each other, whose elements are `step` apart (negative: from the last one on). y has
  // them, those of float32 rounded from more exact ones, or where `exclusive` those before. Integers wrap around. x and
  // y do not overlap.
  void (*running_sum)(const float* x, float* y, int64_t length, int64_t step, int64_t n, bool exclusive);
  void (*running_sum_f64)(const double* x, double* y, int64_t length, int64_t step, int64_t n, bool exclusive);
  void (*running_sum_i32)(const int32_t* x, int32_t* y, int64_t length, int64_t step, int64_t n, bool exclusive);
  void (*running_sum_i64)(const int64_t* x, int64_t* y, int64_t length, int64_t step, int64_t n, bool exclusive);
  // y[r][i] += x[r][i] for r < rows, i < n, with x_stride and y_stride between rows.
  void (*add_rows)(const float* x, int64_t x_stride, float* y, int64_t y_stride, int64_t rows, int64_t n);
  // y[i] = bias + the sum of factors[t] * x[offsets[t] + i] over t < taps, i < n. Reads up to 15 floats beyond the
  // last.
  void (*weighted_sum)(const float* x, const int64_t* offsets, const float* factors, int64_t taps, float bias,
                       int64_t n, float* y);
  // y[j] = the row of the largest or the smallest element of column j of x[length][inner], j < columns; of equal ones
  // the first or the last. A NaN is the extreme, whichever is asked for. Rows are counted in 32 bits.
  void (*arg_columns)(const float* x, int64_t length, int64_t inner, int64_t columns, bool largest, bool last,
                      int64_t* y);
  // False, with nothing done, where vectors would win nothing.
  bool (*top_i32)(const TopLines<int32_t>& lines);
  bool (*top_i64)(const TopLines<int64_t>& lines);
  // y[j] = the sum of (x[i] - columns[i * stride + j])^2 over i < length, j < n.
  void (*square_distances)(const float* x, const float* columns, int64_t stride, int64_t length, int64_t n, float* y);
  // The first place of a value; n where it is nowhere.
  int64_t (*find)(const float* x, int64_t n, float value);
  // The sum of (x[i] - mean)^2.
  float (*squares)(const float* x, int64_t n, float mean);
  // y = (x - mean) * factor + offset. y may be x.
  void (*standardise)(const float* x, float* y, int64_t n, float mean, float factor, float offset);
  // Pairs (a, b) turned by angles with the cosines c and sines s: (c * a - s * b, s * a + c * b). Pair i of a row is
  // its elements i and pairs + i, or interleaved 2 * i and 2 * i + 1. Rows of x and y are `step` apart, those of c and
  // s `angle_step`. y may be x.
  void (*turn)(const float* x, const float* c, const float* s, int64_t rows, int64_t step, int64_t angle_step,
               int64_t pairs, float* y);
  void (*turn_interleaved)(const float* x, const float* c, const float* s, int64_t rows, int64_t step,
                           int64_t angle_step, int64_t pairs, float* y);
  // Each element of x twice, in `rows` equal rows of y. Of 1, 2 and 4 bytes.
  void (*twice8)(const void* x, int64_t n, int64_t rows, void* y);
  void (*twice16)(const void* x, int64_t n, int64_t rows, void* y);
  void (*twice32)(const void* x, int64_t n, int64_t rows, void* y);
};

const LineTable& line_table();

}  // namespace tenon::cpu
