// Lines so few and so long that threads share each of them. The parts follow from the shape alone: results have the
// same bits whatever the number of threads.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <numeric>

#include "tenon/thread_pool.h"

namespace tenon::cpu::nn {

// A line of n elements as `count` parts of `length` elements, of which the last one may have fewer.
struct Parts {
  int64_t n = 0, length = 0, count = 1;

  bool shared() const { return count > 1; }
  int64_t first(int64_t part) const { return part * length; }
  int64_t size(int64_t part) const { return std::min(length, n - first(part)); }
};

// Fewer chunks than this leave threads without work; a part has at least kFewestShared elements.
inline constexpr int64_t kFewChunks = 16, kFewestShared = 16384, kMostParts = 32;

// A number for each part of each line.
template <typename T>
using OfParts = std::array<T, kFewChunks * kMostParts>;

// The parts of each of `chunks` pieces of work, which have n lines of `inner` elements.
inline Parts parts_of(int64_t chunks, int64_t n, int64_t inner = 1) {
  const int64_t wanted = std::min(n * inner / kFewestShared, kMostParts);
  if (chunks >= kFewChunks || wanted < 2) return {n, n, 1};
  const int64_t length = ((n + wanted - 1) / wanted + 15) / 16 * 16;
  return {n, length, (n + length - 1) / length};
}

// The sum of what the parts of a line gave.
inline double sum_of_parts(const double* sums, const Parts& parts, int64_t line) {
  return std::accumulate(sums + line * parts.count, sums + (line + 1) * parts.count, 0.0);
}

// Calls body(line, part) for all parts of `lines` lines.
template <typename Body>
void for_parts(ThreadPool& pool, int64_t lines, const Parts& parts, const Body& body) {
  pool.parallel_for(lines * parts.count, 1, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) body(i / parts.count, i % parts.count);
  });
}

}  // namespace tenon::cpu::nn
