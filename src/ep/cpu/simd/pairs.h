// Loops over two operands, of which the second one may be one number. Only for simd/*.cc (see isa.h).
#pragma once

#include <cstdint>

#include "ep/cpu/ops/loops.h"
#include "ep/cpu/simd/f8.h"

namespace tenon::cpu::TENON_ISA_NAMESPACE {

// y[i] = function(a[i], b[i * b_stride]), where the stride is 0 or 1. y may be a or b.
template <typename T, typename Y, typename Function>
TENON_INLINE void each_pair(const T* a, const T* b, int64_t b_stride, Y* y, int64_t n, const Function& function) {
  if (b_stride != 0) {
    TENON_INDEPENDENT_LOOP
    for (int64_t i = 0; i < n; ++i) y[i] = function(a[i], b[i]);
  } else if (n > 0) {
    const T right = b[0];
    TENON_INDEPENDENT_LOOP
    for (int64_t i = 0; i < n; ++i) y[i] = function(a[i], right);
  }
}

}  // namespace tenon::cpu::TENON_ISA_NAMESPACE
