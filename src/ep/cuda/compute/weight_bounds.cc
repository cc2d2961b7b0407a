#include "ep/cuda/compute/weight_bounds.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <limits>
#include <span>
#include <vector>

#include "ep/cuda/compute/parallel.h"

namespace tenon::cuda {

namespace {

constexpr int32_t kInfinity = 0x7f800000;

// Of one column. A magnitude compares as the integer of its bits, which puts infinity and NaN last.
struct Column {
  int32_t largest = 0;
  float squares = 0;
};

WeightBound joined(std::span<const Column> columns) {
  int32_t largest = 0, least = kInfinity;
  float squares = 0;
  for (const Column& column : columns) {
    largest = std::max(largest, column.largest);
    if (column.largest != 0) least = std::min(least, column.largest);
    squares = std::max(squares, column.squares);
  }
  return {.largest = std::bit_cast<float>(largest),
          .least_largest = largest != 0 ? std::bit_cast<float>(least) : 0.0f,
          .norm = std::sqrt(double{squares}),
          .finite = largest < kInfinity && squares <= std::numeric_limits<float>::max()};
}

// Lanes that the compiler makes vectors of.
Column column_of(std::span<const float> weights) {
  constexpr size_t kLanes = 16;
  std::array<int32_t, kLanes> largest{};
  std::array<float, kLanes> squares{};
  const auto take = [&](size_t lane, float weight) {
    largest[lane] = std::max(largest[lane], std::bit_cast<int32_t>(weight) & 0x7fffffff);
    squares[lane] += weight * weight;
  };
  size_t i = 0;
  for (; i + kLanes <= weights.size(); i += kLanes)
    for (size_t lane = 0; lane < kLanes; ++lane) take(lane, weights[i + lane]);
  for (; i < weights.size(); ++i) take(0, weights[i]);
  Column column;
  for (size_t lane = 0; lane < kLanes; ++lane) {
    column.largest = std::max(column.largest, largest[lane]);
    column.squares += squares[lane];
  }
  return column;
}

}  // namespace

WeightBound bound_of(const Constant& weights, bool rows) {
  const std::span<const float> w = weights.as<float>();
  const auto height = static_cast<size_t>(weights.shape[0]), width = static_cast<size_t>(weights.shape[1]);
  std::vector<Column> columns(rows ? height : width);
  constexpr size_t kBlock = 64;  // columns that a thread takes at a time
  run_parallel((columns.size() + kBlock - 1) / kBlock, [&](size_t block) {
    const size_t begin = block * kBlock, count = std::min(kBlock, columns.size() - begin);
    if (rows) {
      for (size_t c = begin; c < begin + count; ++c) columns[c] = column_of(w.subspan(c * width, width));
      return;
    }
    std::array<int32_t, kBlock> largest{};
    std::array<float, kBlock> squares{};
    for (size_t d = 0; d < height; ++d) {
      const float* const row = w.data() + d * width + begin;
      for (size_t c = 0; c < count; ++c) {
        largest[c] = std::max(largest[c], std::bit_cast<int32_t>(row[c]) & 0x7fffffff);
        squares[c] += row[c] * row[c];
      }
    }
    for (size_t c = 0; c < count; ++c) columns[begin + c] = {largest[c], squares[c]};
  });
  return joined(columns);
}

WeightBound WeightBounds::of(const ConstantRef& weights, bool rows) {
  auto known = known_.lock();
  Known& found = (*known)[{weights.get(), rows}];
  if (found.weights.lock() != weights) found = {.weights = weights, .bound = bound_of(*weights, rows)};
  return found.bound;
}

}  // namespace tenon::cuda
