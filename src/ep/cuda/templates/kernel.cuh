// Included by every kernel template: element types in memory and in registers, vectors, and element coordinates.
//
// nvcc compiles it in the tests, NVRTC when a plan is made, and the host's compiler in the fake plugin; so it includes
// no header of the toolkit.
#pragma once

#include "ep/cuda/templates/conversions.cuh"
#include "ep/cuda/templates/functions.cuh"
#include "ep/cuda/templates/index_params.h"

namespace tenon::cuda::device {

// A truth value in memory: any byte but 0 is true.
struct bool_bits {
  unsigned char bits;
};

// The type to compute in with elements of a type.
template <typename T>
struct Number {
  using type = T;
};
template <>
struct Number<half_bits> {
  using type = float;
};
template <>
struct Number<bfloat_bits> {
  using type = float;
};
template <>
struct Number<bool_bits> {
  using type = bool;
};
template <>
struct Number<signed char> {
  using type = int;
};
template <>
struct Number<short> {
  using type = int;
};
template <>
struct Number<unsigned char> {
  using type = unsigned;
};
template <>
struct Number<unsigned short> {
  using type = unsigned;
};
template <typename T>
using number_t = typename Number<T>::type;

template <typename T>
__device__ __forceinline__ number_t<T> load(T v) {
  return v;
}
template <>
__device__ __forceinline__ float load(half_bits v) {
  return from_half(v);
}
template <>
__device__ __forceinline__ float load(bfloat_bits v) {
  return from_bfloat(v);
}
template <>
__device__ __forceinline__ bool load(bool_bits v) {
  return v.bits != 0;
}

// A number as an element of type T; integers wrap.
template <typename T>
struct Store {
  template <typename V>
  static __device__ __forceinline__ T of(V v) {
    return (T)v;
  }
};
template <>
struct Store<half_bits> {
  static __device__ __forceinline__ half_bits of(float v) { return to_half(v); }
};
template <>
struct Store<bfloat_bits> {
  static __device__ __forceinline__ bfloat_bits of(float v) { return to_bfloat(v); }
};
template <>
struct Store<bool_bits> {
  template <typename V>
  static __device__ __forceinline__ bool_bits of(V v) {
    return {(unsigned char)(v != 0)};
  }
};
template <typename T, typename V>
__device__ __forceinline__ T store(V v) {
  return Store<T>::of(v);
}

// The least and the greatest number of an element type; of floats the infinities.
template <typename T, typename N = number_t<T>>
struct Limits {
  static constexpr T kLowest = T(-1) > T(0) ? T(0) : (T)(1ULL << (sizeof(T) * 8 - 1));
  static __device__ __forceinline__ N lowest() { return kLowest; }
  static __device__ __forceinline__ N highest() { return (T)~kLowest; }
};
template <typename T>
struct Limits<T, float> {
  static __device__ __forceinline__ float lowest() { return -infinity_(); }
  static __device__ __forceinline__ float highest() { return infinity_(); }
};
template <typename T>
struct Limits<T, double> {
  static __device__ __forceinline__ double lowest() { return -(double)infinity_(); }
  static __device__ __forceinline__ double highest() { return (double)infinity_(); }
};
template <typename T>
__device__ __forceinline__ number_t<T> lowest() {
  return Limits<T>::lowest();
}
template <typename T>
__device__ __forceinline__ number_t<T> highest() {
  return Limits<T>::highest();
}

// Neighbouring elements that are loaded or stored at once; the address is a multiple of its size.
template <typename T, int n>
struct alignas(sizeof(T) * n) Pack {
  T v[n];
};

// Element numbers and, with a sign, offsets in tensors: 64 bits where a tensor is too large for 32.
template <bool kWide>
struct IndexTypes {
  using index = unsigned;
  using offset = int;
};
template <>
struct IndexTypes<true> {
  using index = unsigned long long;
  using offset = long long;
};
template <bool kWide>
using index_t = typename IndexTypes<kWide>::index;
template <bool kWide>
using offset_t = typename IndexTypes<kWide>::offset;

__device__ __forceinline__ unsigned quotient(unsigned n, const Divisor& by) {
  return (__umulhi(n, by.multiplier) + n) >> by.shift;
}
__device__ __forceinline__ unsigned long long quotient(unsigned long long n, const Divisor& by) { return n / by.size; }

// Returns the remainder of `rest` and leaves the quotient in it.
template <typename Index>
__device__ __forceinline__ Index split(Index& rest, const Divisor& by) {
  const Index whole = quotient(rest, by), part = rest - whole * (Index)by.size;
  rest = whole;
  return part;
}

// The coordinates of element `rest` in nested loops, outermost first; the first one has no limit.
template <int kRank, typename Index>
__device__ __forceinline__ void split_index(Index rest, const Divisor* dims, Index* at) {
#pragma unroll
  for (int d = kRank - 1; d > 0; --d) at[d] = split(rest, dims[d]);
  if (kRank > 0) at[0] = rest;
}

// Where those coordinates are in an operand.
template <int kRank, typename Index>
__device__ __forceinline__ Index offset_of(const Index* at, const int64_t* strides) {
  Index offset = 0;
#pragma unroll
  for (int d = 0; d < kRank; ++d) offset += at[d] * (Index)strides[d];
  return offset;
}

// The offsets of element `rest` in two operands; the number of loops is known at run time alone, for what a thread does
// once.
template <typename Index>
__device__ __forceinline__ void find_offsets(Index rest, const LoopParams<2>& loops, Index& first, Index& second) {
  first = second = 0;
#pragma unroll 1
  for (int d = loops.rank - 1; d > 0; --d) {
    const Index at = split(rest, loops.dims[d]);
    first += at * (Index)loops.strides[0][d];
    second += at * (Index)loops.strides[1][d];
  }
  first += rest * (Index)loops.strides[0][0];
  second += rest * (Index)loops.strides[1][0];
}

// The thread's element, where each thread has one.
template <typename Index>
__device__ __forceinline__ Index flat_index() {
  return (Index)blockIdx.x * blockDim.x + threadIdx.x;
}

}  // namespace tenon::cuda::device
