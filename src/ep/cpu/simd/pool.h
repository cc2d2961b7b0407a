// Rows of pools on the plain layout: one tap of neighbouring outputs at a time. One task of one thread.
#pragma once

#include <cstdint>

namespace tenon::cpu {

// y[i] becomes the larger one of itself and x[i * stride], or their sum; the stride is 1 or more. A NaN stays.
template <typename T>
using PoolTap = void (*)(const T* x, int64_t stride, T* y, int64_t n);

struct PoolTable {
  PoolTap<float> maximum_f32;
  PoolTap<uint8_t> maximum_u8;
  PoolTap<int8_t> maximum_i8;
  PoolTap<float> sum_f32;
};

const PoolTable& pool_table();

}  // namespace tenon::cpu
