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

struct PoolTable {
  PoolFold<float> maximum_f32;
  PoolFold<uint8_t> maximum_u8;
  PoolFold<int8_t> maximum_i8;
  PoolFold<float> sum_f32;
  // y[r * n + i] is divided by columns[i] * by_row[r].
  void (*divide)(float* y, const float* columns, const float* by_row, int64_t rows, int64_t n);
  // Of x[rows[k] + i * stride] for k < count, the largest and its place in x. Of equal ones the first row's is taken.
  // Nothing behind the last element is read.
  void (*maximum_at)(const float* x, const int32_t* rows, int64_t count, int64_t stride, float* y, int32_t* at,
                     int64_t n);
};

const PoolTable& pool_table();

}  // namespace tenon::cpu
