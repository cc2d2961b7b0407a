// Matrix products of float64 and of whole numbers of 32 and 64 bits, which wrap. One task of one thread; the caller
// splits.
#pragma once

#include <cstddef>
#include <cstdint>

namespace tenon::cpu {

// C[m,n] = A[m,k] * B[k,n]; element (i, p) of A is a[i * a_row + p * a_column], and so for B. C must not overlap A or
// B.
template <typename T>
struct OtherProductTask {
  const T* a = nullptr;
  int64_t a_row = 0, a_column = 0;
  const T* b = nullptr;
  int64_t b_row = 0, b_column = 0;
  T* c = nullptr;
  int64_t ldc = 0;
  int64_t m = 0, n = 0, k = 0;
};

struct OtherProductTable {
  void (*f64)(const OtherProductTask<double>& task);
  void (*u32)(const OtherProductTask<uint32_t>& task);  // int32 too: both wrap to the same bits
  void (*u64)(const OtherProductTask<uint64_t>& task);
};

const OtherProductTable& other_product_table();

}  // namespace tenon::cpu
