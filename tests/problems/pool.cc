// pool: MaxPool, AveragePool and LpPool with windows as those of conv (n, c, (d, h,) w, k, s, p, dil), and the global
// ones, which take no window.
#include <algorithm>
#include <limits>

#include "base/status.h"
#include "graph/model_writer.h"
#include "problems/family.h"
#include "problems/windows.h"

namespace tenon::problems {

namespace {

using namespace model_writer;

// Of all elements of one channel that a window holds. `count` divides an average.
Number pooled(const std::string& kind, DataType type, const std::vector<double>& values, int64_t count, double power) {
  double sum = 0, magnitude = 0, most = -std::numeric_limits<double>::infinity();
  for (double value : values) {
    const double term = kind == "Lp" ? std::pow(std::fabs(value), power) : value;
    sum += term;
    magnitude += std::fabs(term);
    most = std::max(most, value);
  }
  const auto n = static_cast<int64_t>(values.size());
  const double bound = sum_bound(type, n, magnitude);
  if (kind == "Max") return {most};
  if (kind == "Lp")
    return through({sum, bound}, type, 16, [=](double x) { return std::pow(std::max(0.0, x), 1 / power); });
  return {sum / static_cast<double>(count), bound / static_cast<double>(count)};
}

Status build(const Problem& problem, Case& test) {
  const bool global = problem.op.starts_with("Global"), ceil = problem.has("ceil");
  const std::string kind = problem.op.find("Max") != std::string::npos       ? "Max"
                           : problem.op.find("Average") != std::string::npos ? "Average"
                                                                             : "Lp";
  Window window;
  if (global) {
    window.input = spatial_sizes(problem);
    for (int64_t size : window.input) window.axes.push_back({.in = size, .kernel = size});
    window.kernel = window.input;
    window.output.assign(window.input.size(), 1);
  } else {
    TENON_TRY_ASSIGN(window, read_window(problem, ceil));
  }
  const int64_t batch = problem.size("n", 1), channels = problem.size("c", 1);
  const int64_t pixels_in = product(window.input), pixels_out = product(window.output);
  const bool counts_pads = problem.has("count_pads");
  const auto power = static_cast<double>(problem.integer("power", 2));
  Dims x_dims = {batch, channels}, y_dims = {batch, channels};
  x_dims.insert(x_dims.end(), window.input.begin(), window.input.end());
  y_dims.insert(y_dims.end(), window.output.begin(), window.output.end());
  // All negative: a pad that counted as zero would be the largest.
  const bool integers = !is_float(problem.type);
  const Value x = integers ? test.data("x", x_dims, std::max(lowest(problem.type), -50.0), 50)
                           : test.data("x", x_dims, -2, kind == "Max" ? -1 : 1);
  Array y(problem.type, y_dims), indices(DataType::kInt64, y_dims);
  for (int64_t i = 0; i < y.count(); ++i) {
    const int64_t image = i / pixels_out;
    const std::vector<int64_t> at = index_of(i % pixels_out, window.output);
    std::vector<double> values;
    int64_t best = -1;
    each_tap(window, at, [&](int64_t input, int64_t) {
      values.push_back(x.data[image * pixels_in + input]);
      if (best < 0 || values.back() > x.data[best]) best = image * pixels_in + input;
    });
    auto count = static_cast<int64_t>(values.size());
    if (counts_pads) {
      // The taps between the beginning of the first pad and the end of the last one.
      count = 1;
      for (size_t a = 0; a < window.axes.size(); ++a) {
        const WindowAxis& axis = window.axes[a];
        int64_t taps = 0;
        for (int64_t k = 0; k < axis.kernel; ++k)
          taps += at[a] * axis.stride + k * axis.dilation < axis.in + axis.before + axis.after;
        count *= taps;
      }
    }
    put(y, i, stored(pooled(kind, problem.type, values, count, power), problem.type));
    indices[i] = static_cast<double>(best);
  }
  std::vector<std::string> attributes = window.attributes;
  if (!global) attributes.push_back(ints_attribute("kernel_shape", window.kernel));
  if (ceil) attributes.push_back(int_attribute("ceil_mode", 1));
  if (counts_pads) attributes.push_back(int_attribute("count_include_pad", 1));
  if (problem.has("power")) attributes.push_back(int_attribute("p", static_cast<int64_t>(power)));
  const std::vector<std::string> names = test.nodes(problem.op, {x.name}, problem.has("indices") ? 2 : 1, attributes);
  test.expect(names[0], y);
  if (problem.has("indices")) test.expect(names[1], indices);
  return {};
}

}  // namespace

std::vector<Family> pool_families() {
  std::vector<DataType> types = kFloats;
  types.insert(types.end(), {DataType::kInt8, DataType::kUint8});
  return {{.name = "pool",
           .operators = {"MaxPool", "AveragePool", "LpPool", "GlobalMaxPool", "GlobalAveragePool", "GlobalLpPool"},
           .sizes = {{"n", "c", "d", "h", "w"}, {"k"}, {"s"}, {"p"}, {"dil"}},
           .options = {{"auto_pad", Option::Kind::kWord, {"NOTSET", "SAME_UPPER", "SAME_LOWER", "VALID"}},
                       {"ceil"},
                       {"count_pads"},
                       {"power", Option::Kind::kInteger},
                       {"indices"}},
           .types = types,
           .build = build}};
}

}  // namespace tenon::problems
