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

// One of the parts that threads take: some columns of one matrix.
struct Part {
  const Constant* weights = nullptr;
  bool rows = false;
  std::span<Column> columns;
  size_t begin = 0;
};

void find_columns(const Part& part) {
  const std::span<const float> w = part.weights->as<float>();
  const auto height = static_cast<size_t>(part.weights->shape[0]), width = static_cast<size_t>(part.weights->shape[1]);
  if (part.rows) {
    for (size_t c = 0; c < part.columns.size(); ++c)
      part.columns[c] = column_of(w.subspan((part.begin + c) * width, width));
    return;
  }
  for (size_t d = 0; d < height; ++d) {
    const float* const row = w.data() + d * width + part.begin;
    for (size_t c = 0; c < part.columns.size(); ++c) {
      Column& column = part.columns[c];
      column.largest = std::max(column.largest, std::bit_cast<int32_t>(row[c]) & 0x7fffffff);
      column.squares += row[c] * row[c];
    }
  }
}

std::vector<WeightBound> bounds_of(std::span<const WeightBounds::Wanted> wanted) {
  constexpr size_t kColumns = 256;  // of a part
  std::vector<std::vector<Column>> columns;
  std::vector<Part> parts;
  for (const WeightBounds::Wanted& one : wanted) {
    auto& all = columns.emplace_back(static_cast<size_t>(one.weights->shape[one.rows ? 0 : 1]));
    for (size_t begin = 0; begin < all.size(); begin += kColumns)
      parts.push_back(
          {one.weights.get(), one.rows, std::span(all).subspan(begin, std::min(kColumns, all.size() - begin)), begin});
  }
  run_parallel(parts.size(), [&](size_t i) { find_columns(parts[i]); });
  std::vector<WeightBound> bounds;
  for (const auto& all : columns) bounds.push_back(joined(all));
  return bounds;
}

}  // namespace

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
