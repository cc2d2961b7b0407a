#include "ep/cuda/compute/weight_bounds.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <limits>
#include <numeric>
#include <span>
#include <vector>

#include "ep/cuda/compute/parallel.h"

namespace tenon::cuda {

namespace {

constexpr int32_t kInfinity = 0x7f800000;

// Of each column. A magnitude compares as the integer of its bits, which puts infinity and NaN last.
struct Columns {
  std::vector<int32_t> largest;
  std::vector<float> squares;
};

WeightBound joined(const Columns& columns) {
  int32_t largest = 0, least = kInfinity;
  float squares = 0;
  for (int32_t one : columns.largest) {
    largest = std::max(largest, one);
    if (one != 0) least = std::min(least, one);
  }
  for (float one : columns.squares) squares = std::max(squares, one);
  return {.largest = std::bit_cast<float>(largest),
          .least_largest = largest != 0 ? std::bit_cast<float>(least) : 0.0f,
          .norm = std::sqrt(double{squares}),
          .finite = largest < kInfinity && squares <= std::numeric_limits<float>::max()};
}

constexpr size_t kColumns = 256;  // that a thread takes at a time

// Sums by lanes, neighbours of a row one each: the compiler makes vectors of them.
template <size_t kLanes>
struct Lanes {
  std::array<int32_t, kLanes> largest{};
  std::array<float, kLanes> squares{};

  void take(const float* weights, size_t count) {
    for (size_t lane = 0; lane < count; ++lane) {
      largest[lane] = std::max(largest[lane], std::bit_cast<int32_t>(weights[lane]) & 0x7fffffff);
      squares[lane] += weights[lane] * weights[lane];
    }
  }
};

// Columns `begin` to `begin` + `count` of one matrix.
void find_columns(const Constant& weights, bool rows, size_t begin, size_t count, Columns* out) {
  const std::span<const float> w = weights.as<float>();
  const size_t height = weights.shape[0], width = weights.shape[1];
  if (!rows) {
    Lanes<kColumns> lanes;
    for (size_t d = 0; d < height; ++d) lanes.take(w.data() + d * width + begin, count);
    std::copy_n(lanes.largest.begin(), count, out->largest.begin() + static_cast<std::ptrdiff_t>(begin));
    std::copy_n(lanes.squares.begin(), count, out->squares.begin() + static_cast<std::ptrdiff_t>(begin));
    return;
  }
  constexpr size_t kLanes = 16;
  for (size_t c = begin; c < begin + count; ++c) {
    const std::span<const float> column = w.subspan(c * width, width);
    Lanes<kLanes> lanes;
    size_t i = 0;
    for (; i + kLanes <= column.size(); i += kLanes) lanes.take(column.data() + i, kLanes);
    lanes.take(column.data() + i, column.size() - i);
    out->largest[c] = *std::max_element(lanes.largest.begin(), lanes.largest.end());
    out->squares[c] = std::accumulate(lanes.squares.begin(), lanes.squares.end(), 0.0f);
  }
}

std::vector<WeightBound> bounds_of(std::span<const WeightBounds::Wanted> wanted) {
  struct Part {
    size_t matrix = 0, begin = 0;
  };
  std::vector<Columns> columns;
  std::vector<Part> parts;
  for (const WeightBounds::Wanted& one : wanted) {
    const size_t count = one.weights->shape[one.rows ? 0 : 1];
    for (size_t begin = 0; begin < count; begin += kColumns) parts.push_back({columns.size(), begin});
    columns.push_back({std::vector<int32_t>(count), std::vector<float>(count)});
  }
  run_parallel(parts.size(), [&](size_t i) {
    const auto [matrix, begin] = parts[i];
    Columns& of = columns[matrix];
    find_columns(*wanted[matrix].weights, wanted[matrix].rows, begin, std::min(kColumns, of.largest.size() - begin),
                 &of);
  });
  std::vector<WeightBound> bounds;
  bounds.reserve(columns.size());
  for (const Columns& of : columns) bounds.push_back(joined(of));
  return bounds;
}

}  // namespace

int32_t split_shift(float largest) {
  const uint32_t magnitude = std::bit_cast<uint32_t>(largest) & 0x7fffffffU;
  return std::min(14 + 127 - static_cast<int32_t>(magnitude >> 23), 126);
}

WeightBound WeightBounds::of(const ConstantRef& weights, bool rows) {
  const Wanted wanted{weights, rows};
  find({&wanted, 1});
  return known_.lock()->at({weights.get(), rows}).bound;
}

void WeightBounds::find(std::span<const Wanted> wanted) {
  auto known = known_.lock();
  std::vector<Wanted> unknown;
  for (const Wanted& one : wanted) {
    const auto found = known->find({one.weights.get(), one.rows});
    if (found == known->end() || found->second.weights.lock() != one.weights) unknown.push_back(one);
  }
  if (unknown.empty()) return;
  const std::vector<WeightBound> bounds = bounds_of(unknown);
  for (size_t i = 0; i < unknown.size(); ++i)
    (*known)[{unknown[i].weights.get(), unknown[i].rows}] = {.weights = unknown[i].weights, .bound = bounds[i]};
}

}  // namespace tenon::cuda
