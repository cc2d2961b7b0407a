// Sizes and strides as kernels take them in their parameters. Host and device code include it; no CUDA header.
#pragma once

#include <cstdint>

namespace tenon::cuda {

// Threads of a block whose kernel computes one element a thread.
inline constexpr unsigned kMapThreads = 256;
// Loops over dimensions that a kernel's parameters hold.
inline constexpr int kMostRank = 12;

// A size that kernels divide by. For 32-bit numerators below 2^31 the quotient is the high word of
// numerator * multiplier, plus the numerator, shifted: T. Granlund and P. Montgomery, "Division by Invariant Integers
// using Multiplication", PLDI 1994. 64-bit numerators are divided by `size`.
struct Divisor {
  uint64_t size = 1;
  uint32_t multiplier = 1, shift = 0;  // where the size is at most 2^31
};

// `size` is at least 1.
constexpr Divisor make_divisor(int64_t size) {
  Divisor divisor;
  divisor.size = static_cast<uint64_t>(size);
  while (divisor.shift < 32 && (uint64_t{1} << divisor.shift) < divisor.size) ++divisor.shift;
  if (divisor.shift < 32)
    divisor.multiplier =
        static_cast<uint32_t>((uint64_t{1} << 32) * ((uint64_t{1} << divisor.shift) - divisor.size) / divisor.size + 1);
  return divisor;
}

// Nested loops, outermost first, and each operand's element strides over them.
template <int kOperands>
struct LoopParams {
  int32_t rank = 0;
  Divisor dims[kMostRank];
  int64_t strides[kOperands][kMostRank] = {};
};

}  // namespace tenon::cuda
