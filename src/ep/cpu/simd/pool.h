// Pools on the plain layout: the taps of neighbouring outputs along one axis. One task of one thread.
#pragma once

#include <cstdint>

namespace tenon::cpu {

// y[r * y_pitch + i] becomes the largest of x[r * x_pitch + k * shift + i * stride] for k < count, or their sum, for
// i < n and r < rows. There is one tap at least; y overlaps no part of x. With a stride of 2 the element behind the
// last one of a row is read too. A NaN stays.
template <typename T>
struct PoolTaps {
  const T* x = nullptr;
  int64_t x_pitch = 0, shift = 0, count = 1, stride = 1;
  T* y = nullptr;
  int64_t y_pitch = 0, n = 0, rows = 1;
};
template <typename T>
using PoolFold = void (*)(const PoolTaps<T>& taps);

// Windows without gaps between their rows, of rows that lie side by side. First the taps of a column are folded into
// `rows`, then those of a row into y. Rows may hold several channels beside each other, as blocks of 8 do: their taps
// are `shift` elements apart.
struct PoolPlane {
  const float* x = nullptr;  // `height` rows of `width` elements; none behind the last one is read
  int64_t planes = 1;        // one behind the other, if all rows of the outputs are wanted
  int64_t height = 0, width = 0;
  int64_t kernel_rows = 1, pad_top = 0;
  int64_t count = 1, shift = 1;  // taps along a row; each window has an element at least
  // From one output to the next. Others than 1 only where PoolTable::short_row says so, with kPoolStridedTaps taps
  // along a row at most.
  int64_t row_stride = 1, column_stride = 1;
  // Of the results in between: row r begins at r * pitch, its elements `pad` behind that, and what stands before and
  // after them is the neutral element already. kPoolSlack elements behind the last row may be touched.
  float* rows = nullptr;
  int64_t pitch = 0, pad = 0;
  // Rows [begin, end) of the outputs, the first of them at y.
  float* y = nullptr;
  int64_t out_width = 0, begin = 0, end = 0;
  // Averages: row r, column i is divided by columns[i] * by_row[r - begin]. kPoolSlack columns more may be read.
  const float* columns = nullptr;
  const float* by_row = nullptr;
};
inline constexpr int64_t kPoolSlack = 32;
inline constexpr int64_t kPoolStridedTaps = 16;

// Windows of kPoolBeside maps beside each other: x[pixel][map] and y[output][map]. The taps of output o are the pixels
// taps[ends[o - 1]] to taps[ends[o] - 1], from taps[0] on for the first one; each has one at least.
inline constexpr int64_t kPoolBeside = 16;
struct PoolLists {
  const float* x = nullptr;
  float* y = nullptr;
  const int32_t* taps = nullptr;
  const int32_t* ends = nullptr;
  const float* divisors = nullptr;  // of the sums; null: the largest are wanted
  int64_t outputs = 0;
};

struct PoolTable {
  PoolFold<float> maximum_f32;
  PoolFold<uint8_t> maximum_u8;
  PoolFold<int8_t> maximum_i8;
  PoolFold<float> sum_f32;
  // Elements of the longest rows of which maximum_plane takes windows of any stride; average_plane takes one less.
  int64_t short_row = 0;
  // False with nothing written where a loop of the general form is left to do it: few rows, or an element that is a
  // NaN.
  bool (*maximum_plane)(const PoolPlane& plane);
  bool (*average_plane)(const PoolPlane& plane);
  // y[r * n + i] is divided by columns[i] * by_row[r].
  void (*divide)(float* y, const float* columns, const float* by_row, int64_t rows, int64_t n);
  // A NaN stays.
  void (*listed)(const PoolLists& lists);
  // Of x[rows[k] + i * stride] for k < count, the largest and its place in x. Of equal ones the first row's is taken.
  // Nothing behind the last element is read.
  void (*maximum_at)(const float* x, const int32_t* rows, int64_t count, int64_t stride, float* y, int32_t* at,
                     int64_t n);
};

const PoolTable& pool_table();

}  // namespace tenon::cpu
