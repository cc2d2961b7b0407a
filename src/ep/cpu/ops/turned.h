// Tensors of [outer, n, inner] whose last dimension is too short for vectors, worked on as [n, inner, outers]: several
// outers side by side, a block at a time on the stack.
#pragma once

#include <algorithm>
#include <cstdint>

#include "ep/cpu/ops/moves/copy.h"

namespace tenon::cpu::nn {

inline constexpr int64_t kTurnedBytes = 32 << 10;  // of a block
inline constexpr int64_t kFewestTurned = 8;        // outers of a block
template <typename T>
inline constexpr int64_t kTurnedElements = kTurnedBytes / static_cast<int64_t>(sizeof(T));

inline constexpr int64_t kShortInner = 16, kMostTurned = 512;  // inner elements, and outers of a block
inline constexpr int64_t kMostTurnedResults = kShortInner * kMostTurned;

// Outers that a block holds; 0 where it holds too few.
template <typename T>
int64_t turned_outers(int64_t n, int64_t inner) {
  return n == 0 ? 0 : std::min(kMostTurned, kTurnedElements<T> / (n * inner)) / kFewestTurned * kFewestTurned;
}

// Whether [outer, n, inner] is worth turning: vectors along `inner` would be mostly empty.
template <typename T>
bool is_short_inner(int64_t outer, int64_t n, int64_t inner) {
  return inner > 1 && inner < kShortInner && outer >= kFewestTurned && turned_outers<T>(n, inner) > 0;
}

// Rows of at most so many elements, [outer, n, 1], are worth turning.
inline constexpr int64_t kShortRow = 32;

// Calls body(block, first, count) for blocks of the outers [begin, end): block is x[n, inner, count] from outer `first`
// on, and the body's to change. A block must hold some.
template <typename T, typename Body>
void for_turned(const T* x, int64_t begin, int64_t end, int64_t n, int64_t inner, const Body& body) {
  alignas(64) T block[kTurnedElements<T>];
  const int64_t together = turned_outers<T>(n, inner), each = n * inner;
  for (int64_t first = begin; first < end; first += together) {
    const int64_t count = std::min(together, end - first);
    transpose(sizeof(T), x + first * each, each, block, count, count, each);
    body(static_cast<T*>(block), first, count);
  }
}

// [count, each] from [each, count].
template <typename T>
void turn_back(const T* block, int64_t each, int64_t count, T* y) {
  transpose(sizeof(T), block, count, y, each, each, count);
}

// Whether the columns of x[n, inner] are so few, and so long, that fold_thin() gains.
inline constexpr int64_t kJoinedColumns = 128;
inline bool is_thin(int64_t n, int64_t inner) {
  return inner > 1 && inner < kShortInner && n * inner >= 4 * kJoinedColumns;
}

// The columns of x[n, inner], folded into results[inner]: some neighbouring rows are taken as one long row, and what
// the columns of those give is folded once more. fold(x, results, rows, columns) and again(parts, results, rows,
// columns) fold columns of elements, and of results.
template <typename A, typename T, typename Fold, typename Again>
void fold_thin(const T* x, A* results, int64_t n, int64_t inner, const Fold& fold, const Again& again) {
  alignas(64) A parts[kJoinedColumns + kShortInner];
  const int64_t joined = kJoinedColumns / inner, rows = n / joined, rest = n % joined;
  int64_t count = 0;
  if (rows > 0) {
    fold(x, parts, rows, joined * inner);
    count = joined;
  }
  if (rest > 0) {
    fold(x + rows * joined * inner, parts + count * inner, rest, inner);
    ++count;
  }
  again(parts, results, count, inner);
}

}  // namespace tenon::cpu::nn
