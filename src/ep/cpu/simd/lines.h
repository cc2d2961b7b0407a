// Loops over lines of numbers, of one thread: running sums, places of extremes, rows that are standardised.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <type_traits>

namespace tenon::cpu {

// How TopK and ArgMax order elements whose bits are those of T, a signed integer: those with larger keys come first, of
// equal ones the first. Both zeros of a float are one, and so are all NaNs.
template <typename T>
struct ElementOrder {
  T signs = 0;                                 // of a float -1
  T magnitude = T(-1);                         // of a float, the bits without the sign
  T infinity = std::numeric_limits<T>::max();  // of a float, its bits: those of NaNs are larger
  T flip = 0;                                  // the bits of a key that are turned round: all, where smaller come first
  T nan = std::numeric_limits<T>::max();       // the key of NaNs
};

template <typename T>
T key_of(T bits, const ElementOrder<T>& by) {
  using U = std::make_unsigned_t<T>;
  const T sign = static_cast<T>((bits < 0 ? T(-1) : T(0)) & by.signs), size = static_cast<T>(bits & by.magnitude);
  const T key = static_cast<T>(static_cast<U>(size ^ sign) - static_cast<U>(sign));
  return size > by.infinity ? by.nan : static_cast<T>(key ^ by.flip);
}

// TopK of n lines beside each other, whose elements are `step` apart: 1 to kMostTop of 1 to kTopLines lines.
template <typename T>
struct TopLines {
  const T* x = nullptr;
  int64_t step = 0, length = 0, n = 0, k = 0;
  ElementOrder<T> by;
  T* order = nullptr;  // order[j * kTopLines + l]: where element j of line l was
};
inline constexpr int64_t kTopLines = 16;
inline constexpr int64_t kMostTop = 32;

// Loops over the keys of elements as large as T.
template <typename T>
struct KeyTable {
  // False, with nothing done, where vectors would win nothing.
  bool (*top)(const TopLines<T>& lines);
  // tops[g] = the largest key of the elements g, g + groups, ... of n. There are as many elements, and `groups` is a
  // multiple of 16.
  void (*group_tops)(const T* x, int64_t n, const ElementOrder<T>& by, int64_t groups, T* tops);
  // places[0, result) = where elements from *next on have at least the key `least`: at most kMostPlaces. *next becomes
  // the first element that was not looked at.
  int64_t (*at_least)(const T* x, int64_t n, const ElementOrder<T>& by, T least, int64_t* next, int64_t* places);
  // y[j] = the first row with the largest key of column j of x[length][columns], whose rows are `step` apart. Elements
  // have `bytes`; those smaller than T are signed. Rows are counted in 32 bits.
  void (*top_rows)(const void* x, size_t bytes, int64_t length, int64_t step, int64_t columns,
                   const ElementOrder<T>& by, int64_t* y);
  // The first or the last place of the largest key of n > 0 such elements.
  int64_t (*top_place)(const void* x, size_t bytes, int64_t n, const ElementOrder<T>& by, bool last);
};
inline constexpr int64_t kMostPlaces = 64;

// Rows x whose first `turned` elements become x * cos + r(x) * sin (ops/rotary.h); y is not x. Rows are `step` apart.
struct RotatedRows {
  const float *x = nullptr, *cos = nullptr, *sin = nullptr;
  float* y = nullptr;
  int64_t rows = 0, turned = 0;
  int64_t x_step = 0, cos_step = 0, sin_step = 0, y_step = 0;
};

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
  KeyTable<int32_t> keys32;
  KeyTable<int64_t> keys64;
  // y[j] = the sum of (x[i] - columns[i * stride + j])^2 over i < length, j < n.
  void (*square_distances)(const float* x, const float* columns, int64_t stride, int64_t length, int64_t n, float* y);
  // The sum of x[i] * y[i], in double.
  double (*dot)(const float* x, const float* y, int64_t n);
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
  void (*rotate_halves)(const RotatedRows& rows);
  void (*rotate_neighbours)(const RotatedRows& rows);
  // Each element of x twice, in `rows` equal rows of y. Of 1, 2 and 4 bytes.
  void (*twice8)(const void* x, int64_t n, int64_t rows, void* y);
  void (*twice16)(const void* x, int64_t n, int64_t rows, void* y);
  void (*twice32)(const void* x, int64_t n, int64_t rows, void* y);
};

const LineTable& line_table();

}  // namespace tenon::cpu
