// The elements and weights that one coordinate of a GridSample reads along its axis.
#pragma once

#include <cmath>
#include <cstdint>

#include "ops/sample.h"

namespace tenon::cpu {

inline constexpr int kMostGridTaps = 4;

// Taps along one axis: elements in [0, length), or -1 in the padding.
template <typename R>
struct GridTaps {
  int64_t index[kMostGridTaps] = {};
  R weight[kMostGridTaps] = {};
};

inline int grid_taps(GridSampleDesc::Mode mode) {
  return mode == GridSampleDesc::Mode::kNearest ? 1 : mode == GridSampleDesc::Mode::kLinear ? 2 : 4;
}

// Mirrors `x` at the borders until it lies between them.
template <typename R>
R reflected(R x, R low, R high) {
  const R range = high - low;
  if (!(range > 0)) return low;
  const R distance = std::fmod(x < low ? low - x : x - high, 2 * range);
  const R from = distance <= range ? distance : 2 * range - distance;
  return x < low ? low + from : high - from;
}

// The coordinate `n` of [-1, 1] on an axis of `length` elements, in elements, moved into the image as `padding` says;
// a cubic one stays where it is beyond a border, whose elements its taps then read. One that is no number, or so far
// out that no element is near, gives one that fits an int64 and reads the same.
template <typename R>
R grid_coordinate(const GridSampleDesc& desc, R n, int64_t length) {
  using Padding = GridSampleDesc::Padding;
  const auto size = static_cast<R>(length);
  R x = desc.align_corners ? (n + 1) / 2 * (size - 1) : ((n + 1) * size - 1) / 2;
  if (desc.mode == GridSampleDesc::Mode::kNearest) x = std::nearbyint(x);
  const R low = desc.align_corners ? R(0) : R(-0.5), high = desc.align_corners ? size - 1 : size - R(0.5);
  if (x < low || x > high) {
    if (desc.padding == Padding::kBorder && desc.mode != GridSampleDesc::Mode::kCubic) x = x < 0 ? R(0) : size - 1;
    if (desc.padding == Padding::kReflection) x = reflected(x, low, high);
  }
  if (x > -8 && x < size + 8) return x;
  if (desc.padding == Padding::kZeros) return -8;
  return x > 0 && desc.padding == Padding::kBorder ? size + 8 : R(0);
}

// The element that stands for position `i`.
inline int64_t grid_element(const GridSampleDesc& desc, int64_t i, int64_t length) {
  using Padding = GridSampleDesc::Padding;
  if (i >= 0 && i < length) return i;
  if (desc.padding == Padding::kZeros) return -1;
  if (desc.padding == Padding::kBorder) return i < 0 ? 0 : length - 1;
  const double low = desc.align_corners ? 0 : -0.5;
  return static_cast<int64_t>(reflected(static_cast<double>(i), low, static_cast<double>(length) - 1 - low));
}

// Weights of the elements around a point that lies `t` behind the second of four (Keys, a = -0.75).
template <typename R>
void cubic_weights(R t, R* weight) {
  constexpr R a = R(-0.75);
  const auto outer = [](R d) { return ((a * d - 5 * a) * d + 8 * a) * d - 4 * a; };
  const auto inner = [](R d) { return ((a + 2) * d - (a + 3)) * d * d + 1; };
  weight[0] = outer(t + 1), weight[1] = inner(t), weight[2] = inner(1 - t), weight[3] = outer(2 - t);
}

template <typename R>
GridTaps<R> taps_at(const GridSampleDesc& desc, R n, int64_t length) {
  GridTaps<R> taps;
  const R x = grid_coordinate(desc, n, length);
  const R floor = std::floor(x);
  auto first = static_cast<int64_t>(floor);
  switch (desc.mode) {
    case GridSampleDesc::Mode::kNearest:
      taps.weight[0] = 1;
      break;
    case GridSampleDesc::Mode::kLinear:
      taps.weight[0] = 1 - (x - floor), taps.weight[1] = x - floor;
      break;
    case GridSampleDesc::Mode::kCubic:
      cubic_weights(x - floor, taps.weight);
      --first;
      break;
  }
  for (int k = 0; k < grid_taps(desc.mode); ++k) taps.index[k] = grid_element(desc, first + k, length);
  return taps;
}

}  // namespace tenon::cpu
