// Loops over elements by whole vectors. Only the vectors' loop is compiled for each function: what all of them share is
// behind a pointer, and the last elements go through buffers. Only for simd/*.cc (see isa.h).
#pragma once

#include <cstdint>
#include <type_traits>

#include "ep/cpu/simd/f8.h"

namespace tenon::cpu::TENON_ISA_NAMESPACE {

inline constexpr int64_t kLoopBytes = HWY_MAX_BYTES < 64 ? HWY_MAX_BYTES : 64;

// Vectors of X and of Y that have as many elements: those of the larger type fill a register.
template <typename X, typename Y>
struct LoopTags {
  using Larger = std::conditional_t<sizeof(X) >= sizeof(Y), X, Y>;
  using Whole = hn::CappedTag<Larger, kLoopBytes / sizeof(Larger)>;
  using From = hn::Rebind<X, Whole>;
  using To = hn::Rebind<Y, Whole>;
  static constexpr int64_t kCount = kLoopBytes / sizeof(Larger);
};
template <typename T>
using LoopVector = hn::Vec<typename LoopTags<T, T>::From>;

// A byte of 0 or 1 for each lane of a mask.
template <typename D>
TENON_INLINE void store_loop(D d, hn::Mask<D> mask, uint8_t* p) {
  const hn::Rebind<uint8_t, D> bytes;
#if HWY_MAX_BYTES >= 64
  (void)d;
  hn::StoreU(hn::IfThenElseZero(hn::Mask<decltype(bytes)>{mask.raw}, hn::Set(bytes, 1)), bytes, p);
#else
  constexpr size_t kCount = hn::MaxLanes(d);
  const hn::RebindToUnsigned<D> u;
  if constexpr (HWY_ARCH_X86 && kCount <= 4) {
    // Four bits are multiplied to where bytes begin.
    uint8_t bits = 0;
    hn::StoreMaskBits(d, mask, &bits);
    const uint32_t ones = (bits * 0x204081u) & 0x01010101u;
    __builtin_memcpy(p, &ones, kCount);
  } else if constexpr (sizeof(hn::TFromD<D>) == 1) {
    hn::StoreU(hn::IfThenElseZero(hn::RebindMask(u, mask), hn::Set(u, 1)), bytes, p);
  } else {
    hn::StoreU(hn::TruncateTo(bytes, hn::IfThenElseZero(hn::RebindMask(u, mask), hn::Set(u, 1))), bytes, p);
  }
#endif
}
template <typename D, typename Y>
TENON_INLINE void store_loop(D, hn::Vec<hn::Rebind<Y, D>> v, Y* p) {
  hn::StoreU(v, hn::Rebind<Y, D>(), p);
}

using EachLoop = void (*)(const void* x, void* y, int64_t count);

// `count` pairs of vectors, which do not wait for each other.
template <auto kFunction, typename X, typename Y>
void each_two_vectors(const void* from, void* to, int64_t count) {
  using Tags = LoopTags<X, Y>;
  const typename Tags::From d;
  const X* x = static_cast<const X*>(from);
  Y* y = static_cast<Y*>(to);
  for (; count > 0; --count, x += 2 * Tags::kCount, y += 2 * Tags::kCount) {
    const auto a = kFunction(hn::LoadU(d, x)), b = kFunction(hn::LoadU(d, x + Tags::kCount));
    store_loop(d, a, y);
    store_loop(d, b, y + Tags::kCount);
  }
}

// `loop` over n elements, of which it takes `step` at a time, a power of 2.
[[gnu::noinline]] inline void run_each(EachLoop loop, int64_t step, const void* x, int64_t x_bytes, void* y,
                                       int64_t y_bytes, int64_t n) {
  const int64_t rest = n & (step - 1), whole = n - rest;
  loop(x, y, n >> __builtin_ctzll(static_cast<uint64_t>(step)));
  if (rest == 0) return;
  alignas(64) uint8_t last[2 * kLoopBytes] = {}, results[2 * kLoopBytes];
  __builtin_memcpy(last, static_cast<const uint8_t*>(x) + whole * x_bytes, static_cast<size_t>(rest * x_bytes));
  loop(last, results, 1);
  __builtin_memcpy(static_cast<uint8_t*>(y) + whole * y_bytes, results, static_cast<size_t>(rest * y_bytes));
}

// y[i] = kFunction(x[i]), a function of a vector. y may be x where both have the same size.
template <auto kFunction, typename X, typename Y = X>
void each(const X* x, Y* y, int64_t n) {
  run_each(&each_two_vectors<kFunction, X, Y>, 2 * LoopTags<X, Y>::kCount, x, sizeof(X), y, sizeof(Y), n);
}

using PairLoop = void (*)(const void* a, const void* b, int64_t step, void* y, int64_t count);

// `count` vectors, those of b `step` elements apart.
template <auto kFunction, typename T, typename Y>
void each_pair_of_vectors(const void* left, const void* right, int64_t step, void* to, int64_t count) {
  using Tags = LoopTags<T, T>;
  const typename Tags::From d;
  const T *a = static_cast<const T*>(left), *b = static_cast<const T*>(right);
  Y* y = static_cast<Y*>(to);
  for (; count > 0; --count, a += Tags::kCount, b += step, y += Tags::kCount)
    store_loop(d, kFunction(hn::LoadU(d, a), hn::LoadU(d, b)), y);
}

// `loop` over n elements of `bytes` each, of which a vector has `lanes`, a power of 2.
[[gnu::noinline]] inline void run_pairs(PairLoop loop, int64_t lanes, const void* a, const void* b, int64_t b_stride,
                                        int64_t bytes, void* y, int64_t y_bytes, int64_t n) {
  alignas(64) uint8_t right[kLoopBytes];
  const int64_t rest = n & (lanes - 1), whole = n - rest;
  if (b_stride == 0 && n > 0) {
    for (int64_t i = 0; i < kLoopBytes; i += bytes) __builtin_memcpy(right + i, b, static_cast<size_t>(bytes));
    b = right;
  }
  loop(a, b, b_stride != 0 ? lanes : 0, y, n >> __builtin_ctzll(static_cast<uint64_t>(lanes)));
  if (rest == 0) return;
  alignas(64) uint8_t left[kLoopBytes] = {}, results[kLoopBytes];
  const auto rest_bytes = static_cast<size_t>(rest * bytes);
  __builtin_memcpy(left, static_cast<const uint8_t*>(a) + whole * bytes, rest_bytes);
  if (b_stride != 0) {
    __builtin_memset(right, 0, sizeof right);
    __builtin_memcpy(right, static_cast<const uint8_t*>(b) + whole * bytes, rest_bytes);
  }
  loop(left, right, 0, results, 1);
  __builtin_memcpy(static_cast<uint8_t*>(y) + whole * y_bytes, results, static_cast<size_t>(rest * y_bytes));
}

// y[i] = kFunction(a[i], b[i * b_stride]), where the stride is 0 or 1. y may be a or b.
template <auto kFunction, typename T, typename Y>
void each_pair(const T* a, const T* b, int64_t b_stride, void* y, int64_t n) {
  run_pairs(&each_pair_of_vectors<kFunction, T, Y>, LoopTags<T, T>::kCount, a, b, b_stride, sizeof(T), y, sizeof(Y), n);
}

}  // namespace tenon::cpu::TENON_ISA_NAMESPACE
