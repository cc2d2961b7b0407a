// resize: one shape; `sizes=` or `scales=` of all axes, `mode=`, `coordinates=`, `nearest=`, `a=` (of cubic), the flags
// exclude_outside and antialias (opset 18, of linear and cubic).
#include <algorithm>

#include "base/status.h"
#include "graph/model_writer.h"
#include "problems/family.h"

namespace tenon::problems {

namespace {

using namespace model_writer;

// The elements of one axis that an output reads, with their weights.
using Taps = std::vector<std::pair<int64_t, double>>;

double source(const std::string& coordinates, int64_t o, int64_t in, int64_t out, double scale) {
  const auto at = static_cast<double>(o), size = static_cast<double>(in), resized = static_cast<double>(out);
  if (coordinates == "asymmetric") return at / scale;
  if (coordinates == "align_corners") return out == 1 ? 0 : at * (size - 1) / (resized - 1);
  if (coordinates == "pytorch_half_pixel" && out == 1) return 0;
  const double half = (at + 0.5) / scale - 0.5;
  if (coordinates == "half_pixel_symmetric") return half + size / 2 * (1 - resized / (scale * size));
  return half;
}

double cubic(double distance, double a) {
  const double d = std::fabs(distance);
  if (d <= 1) return ((a + 2) * d - (a + 3)) * d * d + 1;
  return d < 2 ? ((a * d - 5 * a) * d + 8 * a) * d - 4 * a : 0;
}

Taps taps_of(const Problem& problem, int64_t o, int64_t in, int64_t out, double scale) {
  // An axis that keeps its size is copied.
  if (in == out && scale == 1) return {{o, 1}};
  const double x = source(problem.word("coordinates", "half_pixel"), o, in, out, scale);
  const auto inside = [&](double at) { return std::clamp<int64_t>(static_cast<int64_t>(at), 0, in - 1); };
  const std::string mode = problem.word("mode", "nearest"), nearest = problem.word("nearest", "round_prefer_floor");
  if (mode == "nearest") {
    if (nearest == "floor") return {{inside(std::floor(x)), 1}};
    if (nearest == "ceil") return {{inside(std::ceil(x)), 1}};
    return {{inside(nearest == "round_prefer_floor" ? std::ceil(x - 0.5) : std::floor(x + 0.5)), 1}};
  }
  if (problem.has("antialias")) {
    // A smaller output has the filter stretched over the input elements that it stands for.
    const double stretch = std::min(scale, 1.0), radius = (mode == "linear" ? 1 : 2) / stretch;
    Taps taps;
    double total = 0;
    for (double at = std::ceil(x - radius); at <= std::floor(x + radius); ++at) {
      const double distance = std::fabs(at - x) * stretch;
      double weight = mode == "linear" ? std::max(0.0, 1 - distance) : cubic(distance, problem.number("a", -0.75));
      if (problem.has("exclude_outside") && (at < 0 || at >= static_cast<double>(in))) weight = 0;
      total += weight;
      taps.emplace_back(inside(at), weight);
    }
    for (auto& [at, weight] : taps) weight /= total;
    return taps;
  }
  const double first = std::floor(x), part = x - first;
  if (mode == "linear") return {{inside(first), 1 - part}, {inside(first + 1), part}};
  Taps taps;
  double total = 0;
  for (int k = -1; k <= 2; ++k) {
    const double at = first + k;
    double weight = cubic(part - k, problem.number("a", -0.75));
    if (problem.has("exclude_outside") && (at < 0 || at >= static_cast<double>(in))) weight = 0;
    total += weight;
    taps.emplace_back(inside(at), weight);
  }
  if (problem.has("exclude_outside"))
    for (auto& [at, weight] : taps) weight /= total;
  return taps;
}

Status build(const Problem& problem, Case& test) {
  const Dims& in = problem.shapes[0];
  const bool nearest = problem.word("mode", "nearest") == "nearest";
  TENON_INVALID_IF(nearest && problem.has("antialias"), "antialias is of linear and cubic modes.");
  if (problem.has("antialias")) test.needs_opset(18);
  const Value x = test.data("x", in, is_float(problem.type) ? -1 : 0, is_float(problem.type) ? 1 : 9);
  Dims out = problem.integers("sizes");
  const std::vector<double> given = problem.numbers("scales");
  TENON_INVALID_IF(out.size() != in.size() && given.size() != in.size(), "sizes or scales is to have {} numbers.",
                   in.size());
  std::vector<double> scales;
  Value sizes, factors;
  if (out.empty()) {
    factors = test.values("scales", DataType::kFloat, {static_cast<int64_t>(in.size())}, given, Role::kShape);
    for (size_t i = 0; i < in.size(); ++i) {
      scales.push_back(factors.data.v[i]);
      out.push_back(static_cast<int64_t>(std::floor(static_cast<double>(in[i]) * scales[i])));
    }
  } else {
    sizes = test.integers("sizes", out);
    for (size_t i = 0; i < in.size(); ++i) scales.push_back(static_cast<double>(out[i]) / static_cast<double>(in[i]));
  }
  // One axis after the other, in double.
  Array y = x.data;
  double longest = 1, largest = 0;
  for (double value : x.data.v) largest = std::max(largest, std::fabs(value));
  for (size_t a = 0; a < in.size(); ++a) {
    Dims dims = y.dims;
    dims[a] = out[a];
    if (scales[a] != 1) longest = std::max(longest, static_cast<double>(in[a]));
    Array next(problem.type, dims);
    for (int64_t i = 0; i < next.count(); ++i) {
      std::vector<int64_t> at = index_of(i, dims);
      double sum = 0;
      for (const auto& [from, weight] : taps_of(problem, at[a], in[a], out[a], scales[a])) {
        at[a] = from;
        sum += weight * y[offset_of(at, y.dims)];
      }
      next[i] = sum;
    }
    y = std::move(next);
  }
  // A coordinate is rounded in proportion to the length of its axis, and the weights with it.
  const double slack = 8 * sum_roundoff(DataType::kFloat) * (longest + 8) * largest;
  for (int64_t i = 0; i < y.count() && !nearest; ++i) {
    if (is_float(problem.type)) {
      put(y, i, stored({y[i], slack}, problem.type));
    } else if (problem.has("antialias")) {
      put(y, i, {std::round(y[i]), 1});  // each axis is rounded before the next one reads it
    } else {
      // Integers lose their fraction: a sum beside a whole number gives either neighbour.
      put(y, i, {std::trunc(y[i]), std::trunc(y[i] - slack) == std::trunc(y[i] + slack) ? 0.0 : 1.0});
    }
  }
  std::vector<std::string> attributes = {string_attribute("mode", problem.word("mode", "nearest"))};
  if (problem.has("coordinates"))
    attributes.push_back(string_attribute("coordinate_transformation_mode", problem.word("coordinates")));
  if (problem.has("nearest")) attributes.push_back(string_attribute("nearest_mode", problem.word("nearest")));
  if (problem.has("a"))
    attributes.push_back(float_attribute("cubic_coeff_a", static_cast<float>(problem.number("a", 0))));
  if (problem.has("exclude_outside")) attributes.push_back(int_attribute("exclude_outside", 1));
  if (problem.has("antialias")) attributes.push_back(int_attribute("antialias", 1));
  test.expect(test.node("Resize", {x.name, "", factors.name, sizes.name}, attributes), y);
  return {};
}

}  // namespace

std::vector<Family> resize_families() {
  using Kind = Option::Kind;
  return {{.name = "resize",
           .fewest_shapes = 1,
           .most_shapes = 1,
           .options = {{"sizes", Kind::kIntegers},
                       {"scales", Kind::kNumbers},
                       {"mode", Kind::kWord, {"nearest", "linear", "cubic"}},
                       {"coordinates",
                        Kind::kWord,
                        {"half_pixel", "half_pixel_symmetric", "pytorch_half_pixel", "align_corners", "asymmetric"}},
                       {"nearest", Kind::kWord, {"round_prefer_floor", "round_prefer_ceil", "floor", "ceil"}},
                       {"a", Kind::kNumber},
                       {"exclude_outside"},
                       {"antialias"}},
           .types = kNumbers,
           .build = build}};
}

}  // namespace tenon::problems
