#include "ep/cpu/simd/other_product.h"

#include <type_traits>

#include "ep/cpu/simd/isa.h"

namespace tenon::cpu::TENON_ISA_NAMESPACE {
namespace {

// The set's widest registers, in the compiler's own vectors: Highway has no product of 64-bit integers for all sets.
#if defined(__AVX512F__)
constexpr int kBytes = 64, kTileRows = 6, kTileVectors = 4;
#elif defined(__AVX2__)
constexpr int kBytes = 32, kTileRows = 4, kTileVectors = 3;
#else
constexpr int kBytes = 16, kTileRows = 2, kTileVectors = 3;
#endif
// A block of B of this depth and one tile's columns stays in L1 while all rows of A pass.
constexpr int64_t kDepth = 96;

template <typename T>
struct Vector {
  typedef T Type __attribute__((vector_size(kBytes), aligned(kBytes)));
  static constexpr int64_t kLanes = kBytes / static_cast<int64_t>(sizeof(T));
  static constexpr int64_t kColumns = kLanes * kTileVectors;
};

// to[i * step + j] of kRows rows and kVectors vectors of columns.
template <typename T, int kRows, int kVectors>
void tile(const OtherProductTask<T>& t, const T* a, const T* b, int64_t depth, T* to, int64_t step) {
  using V = typename Vector<T>::Type;
  V x[kRows][kVectors] = {};
  const int64_t row = t.a_row, column = t.a_column;
  for (int64_t p = 0; p < depth; ++p, a += column) {
    const V* const y = reinterpret_cast<const V*>(b) + p * kTileVectors;
#pragma GCC unroll 6
    for (int i = 0; i < kRows; ++i) {
      const V value = a[i * row] - V{};  // the difference, unlike a sum, is no instruction: -0 + 0 is 0
#pragma GCC unroll 4
      for (int v = 0; v < kVectors; ++v) x[i][v] += value * y[v];
    }
  }
#pragma GCC unroll 6
  for (int i = 0; i < kRows; ++i)
#pragma GCC unroll 4
    for (int v = 0; v < kVectors; ++v)
      __builtin_memcpy(to + i * step + v * Vector<T>::kLanes, &x[i][v], sizeof x[i][v]);
}

// Tiles of fewer columns where a matrix ends, of the type that models have most.
template <typename T>
constexpr int kFewestVectors = std::is_same_v<T, double> ? 1 : kTileVectors;
template <typename T, int kVectors = kTileVectors>
inline void any_tile(const OtherProductTask<T>& t, const T* a, const T* b, int64_t depth, T* to, int64_t step,
                     int64_t vectors) {
  if (vectors == kVectors) return tile<T, kTileRows, kVectors>(t, a, b, depth, to, step);
  if constexpr (kVectors > kFewestVectors<T>) any_tile<T, kVectors - 1>(t, a, b, depth, to, step, vectors);
}

// By vectors: a call, or an instruction for strings, takes as long as the elements of a row do.
template <typename T>
inline void copy_row(const T* from, int64_t n, T* to) {
  typename Vector<T>::Type x;
  int64_t i = 0;
  for (; i + Vector<T>::kLanes <= n; i += Vector<T>::kLanes) {
    __builtin_memcpy(&x, from + i, sizeof x);
    __builtin_memcpy(to + i, &x, sizeof x);
  }
  for (; i < n; ++i) to[i] = from[i];
}

template <typename T>
void add_row(const T* sum, int64_t columns, T* c) {
  using V = typename Vector<T>::Type;
  constexpr int64_t kLanes = Vector<T>::kLanes;
  int64_t j = 0;
  for (; j + kLanes <= columns; j += kLanes) {
    V x;
    __builtin_memcpy(&x, c + j, sizeof x);
    x += *reinterpret_cast<const V*>(sum + j);
    __builtin_memcpy(c + j, &x, sizeof x);
  }
  for (; j < columns; ++j) c[j] += sum[j];
}

// So few columns that a tile would be mostly empty: each result is the product of a row of A, whose elements lie side
// by side, and of a column.
constexpr int64_t kFewColumns = 8;

template <typename T>
T dot(const T* a, const T* b, int64_t n) {
  using V = typename Vector<T>::Type;
  constexpr int64_t kLanes = Vector<T>::kLanes;
  constexpr int kSums = 4;
  V sums[kSums] = {};
  int64_t i = 0;
  for (; i + kSums * kLanes <= n; i += kSums * kLanes) {
#pragma GCC unroll 4
    for (int v = 0; v < kSums; ++v) {
      V x;
      __builtin_memcpy(&x, a + i + v * kLanes, sizeof x);
      sums[v] += x * *reinterpret_cast<const V*>(b + i + v * kLanes);
    }
  }
  const V all = (sums[0] + sums[1]) + (sums[2] + sums[3]);
  T result = 0;
  for (int64_t lane = 0; lane < kLanes; ++lane) result += all[lane];
  for (; i < n; ++i) result += a[i] * b[i];
  return result;
}

template <typename T>
void run_few_columns(const OtherProductTask<T>& t) {
  constexpr int64_t kPiece = 1024;
  alignas(64) T column[kPiece];
  for (int64_t j = 0; j < t.n; ++j) {
    for (int64_t k0 = 0; k0 == 0 || k0 < t.k; k0 += kPiece) {
      const int64_t depth = t.k - k0 < kPiece ? t.k - k0 : kPiece;
      for (int64_t p = 0; p < depth; ++p) column[p] = t.b[(k0 + p) * t.b_row + j * t.b_column];
      for (int64_t i = 0; i < t.m; ++i) {
        T& c = t.c[i * t.ldc + j];
        c = (k0 == 0 ? T(0) : c) + dot(t.a + i * t.a_row + k0, column, depth);
      }
    }
  }
}

template <typename T>
void run(const OtherProductTask<T>& t) {
  if (t.n <= kFewColumns && t.a_column == 1) return run_few_columns(t);
  constexpr int64_t kColumns = Vector<T>::kColumns;
  alignas(64) T block[kDepth * kColumns];
  alignas(64) T sums[kTileRows * kColumns];
  for (int64_t n = 0; n < t.n; n += kColumns) {
    const int64_t columns = t.n - n < kColumns ? t.n - n : kColumns;
    for (int64_t k0 = 0; k0 == 0 || k0 < t.k; k0 += kDepth) {
      const int64_t depth = t.k - k0 < kDepth ? t.k - k0 : kDepth;
      const T* const b = t.b + n * t.b_column + k0 * t.b_row;
      for (int64_t p = 0; p < depth; ++p) {
        T* const to = block + p * kColumns;
        if (t.b_column == 1) {
          copy_row(b + p * t.b_row, columns, to);
        } else {
          for (int64_t j = 0; j < columns; ++j) to[j] = b[p * t.b_row + j * t.b_column];
        }
        for (int64_t j = columns; j < kColumns; ++j) to[j] = 0;
      }
      int64_t vectors = (columns + Vector<T>::kLanes - 1) / Vector<T>::kLanes;
      if (vectors < kFewestVectors<T>) vectors = kFewestVectors<T>;
      for (int64_t m = 0, rows = 0; m < t.m; m += rows) {
        // Of many rows that are left, a whole tile takes less time: it computes some of the rows before again.
        const int64_t left = t.m - m;
        const bool overlaps = left < kTileRows && 2 * left >= kTileRows && t.m >= kTileRows;
        rows = left >= kTileRows ? kTileRows : overlaps ? left : 1;
        const int64_t again = overlaps ? kTileRows - left : 0;
        const T* const a = t.a + (m - again) * t.a_row + k0 * t.a_column;
        T* c = t.c + m * t.ldc + n;
        const bool alone = rows == 1 && !overlaps;
        const bool whole = columns == vectors * Vector<T>::kLanes && again == 0 && !alone && k0 == 0;
        if (alone) {
          tile<T, 1, kTileVectors>(t, a, block, depth, sums, kColumns);
        } else {
          any_tile<T>(t, a, block, depth, whole ? c : sums, whole ? t.ldc : kColumns, vectors);
        }
        for (int64_t i = again; !whole && i < again + rows; ++i, c += t.ldc) {
          const T* const sum = sums + i * kColumns;
          if (k0 == 0) {
            copy_row(sum, columns, c);
          } else {
            add_row<T>(sum, columns, c);
          }
        }
      }
    }
  }
}

}  // namespace

extern const OtherProductTable other_product_table;
const OtherProductTable other_product_table = {&run<double>, &run<uint32_t>, &run<uint64_t>};

}  // namespace tenon::cpu::TENON_ISA_NAMESPACE
