// norm: one shape. LayerNormalization and RMSNormalization from `axis=` on, InstanceNormalization, GroupNormalization
// with `groups=`, BatchNormalization, LRN with `size=`, LpNormalization with `power=` along `axis=`. `residual` and
// `addend` (a number for each channel of each image) are added before, `act=` and the tensor of `behind` follow.
// `nodes`: an RMSNormalization of the last axis as the operators that exporters write.
#include <algorithm>
#include <functional>

#include "base/status.h"
#include "graph/model_writer.h"
#include "problems/family.h"

namespace tenon::problems {

namespace {

using namespace model_writer;

// The mean and the inverse deviation of a row.
struct Moments {
  Number mean, inverse;
};

// Standardises x[first, first + count) with one mean and variance; `scale` and `shift` of an element by its offset.
Moments standardise(const Array& x, Array& y, int64_t first, int64_t count, double epsilon, bool centred,
                    const std::function<double(int64_t)>& scale, const std::function<double(int64_t)>& shift) {
  const DataType type = y.type;
  const double u = sum_roundoff(type), n = static_cast<double>(count);
  double sum = 0, size = 0, carried = 0;
  for (int64_t i = first; i < first + count; ++i) {
    sum += x[i];
    size += std::fabs(x[i]);
    carried = std::max(carried, x.error(i));
  }
  const double mean = centred ? sum / n : 0, mean_bound = centred ? sum_bound(type, count, size) / n + carried : 0;
  double squares = 0, raw = 0;
  for (int64_t i = first; i < first + count; ++i) {
    squares += (x[i] - mean) * (x[i] - mean);
    raw += x[i] * x[i];
  }
  // The variance may be the mean of squares less the square of the mean.
  const double variance = squares / n, deviation = std::sqrt(variance + epsilon);
  const double relative = (sum_bound(type, count, raw) / n + 2 * (mean_bound + carried) * std::sqrt(variance)) /
                              (2 * deviation * deviation) +
                          8 * u;
  for (int64_t i = first; i < first + count; ++i) {
    const double s = scale(i), b = shift(i), z = (x[i] - mean) / deviation;
    const double bound =
        std::fabs(s) * ((mean_bound + x.error(i) + 2 * u * (std::fabs(x[i]) + std::fabs(mean))) / deviation +
                        std::fabs(z) * relative) +
        4 * u * (std::fabs(b) + std::fabs(s * z));
    put(y, i, stored({z * s + b, bound}, type));
  }
  return {{mean, mean_bound}, {1 / deviation, relative / deviation}};
}

Status build_standard(const Problem& problem, Case& test) {
  const DataType type = problem.type;
  const std::string& op = problem.op;
  Value x = test.data("x", problem.shapes[0], -2, 3);
  const Dims& dims = x.data.dims;
  TENON_INVALID_IF(dims.empty(), "A norm of a scalar.");
  if (problem.has("residual")) {
    const Value other = test.random("residual", type, dims, -1, 1);
    x = {test.node("Add", {x.name, other.name}), map(x.data, other.data, [](double a, double b) { return a + b; })};
  }
  if (problem.has("addend")) {
    // A number for each channel of each image.
    Dims each(dims.size(), 1);
    std::copy_n(dims.begin(), std::min<size_t>(dims.size(), 2), each.begin());
    const Value addend = test.random("addend", type, each, -1, 1);
    Array sum(type, x.data.dims);
    for (int64_t i = 0; i < sum.count(); ++i) {
      std::vector<int64_t> at = index_of(i, sum.dims);
      std::fill(at.begin() + 2, at.end(), 0);
      const double other = addend.data[offset_of(at, each)], both = x.data[i] + other;
      put(sum, i, stored({both, x.data.error(i)}, type));
    }
    x = {test.node("Add", {x.name, addend.name}), std::move(sum)};
  }
  const bool layer = op == "LayerNormalization" || op == "RMSNormalization", centred = op != "RMSNormalization";
  const int64_t channels = layer || dims.size() < 2 ? 1 : dims[1];
  const int64_t pixels = layer || dims.size() < 2 ? 1 : product(Dims(dims.begin() + 2, dims.end()));
  const int64_t given = problem.integer("axis", -1);
  const auto axis = static_cast<size_t>(axis_of(given, x.data.rank()));
  const Dims normed = layer ? Dims(dims.begin() + static_cast<ptrdiff_t>(axis), dims.end()) : Dims{channels};
  const bool nodes = problem.has("nodes");
  TENON_INVALID_IF(nodes && (op != "RMSNormalization" || axis + 1 != dims.size()),
                   "nodes stand for an RMSNormalization of the last axis.");
  if (op == "RMSNormalization") test.needs_opset(nodes ? 18 : 23);
  const Value scale = test.weight("scale", normed, 0.5, 1.5);
  Value shift;
  if (!problem.has("nobias") && centred) shift = test.weight("shift", normed);
  TENON_INVALID_IF(shift.name.empty() && centred && op != "LayerNormalization", "{} has a bias.", op);
  const double epsilon = static_cast<float>(problem.number("eps", 1e-5));
  std::vector<std::string> attributes, inputs = {x.name, scale.name, shift.name};
  if (problem.has("eps")) attributes.push_back(float_attribute("epsilon", static_cast<float>(epsilon)));
  Array y(type, dims);
  // LayerNormalization's further outputs.
  Dims rows = dims;
  if (layer) std::fill(rows.begin() + static_cast<ptrdiff_t>(axis), rows.end(), 1);
  Array mean(type, rows), inverse = mean;
  if (op == "BatchNormalization") {
    const Value average = test.weight("mean", {channels}), variance = test.weight("variance", {channels}, 0.5, 2);
    inputs.push_back(average.name);
    inputs.push_back(variance.name);
    for (int64_t i = 0; i < y.count(); ++i) {
      const int64_t c = i / pixels % channels;
      const double factor = scale.data[c] / std::sqrt(variance.data[c] + epsilon);
      const double size =
          std::fabs(factor) * (std::fabs(x.data[i]) + std::fabs(average.data[c])) + std::fabs(shift.data[c]);
      put(y, i,
          stored({(x.data[i] - average.data[c]) * factor + shift.data[c],
                  8 * sum_roundoff(type) * size + std::fabs(factor) * x.data.error(i)},
                 type));
    }
  } else {
    int64_t groups = product(normed), count = groups;
    if (!layer) {
      groups = op == "GroupNormalization" ? problem.integer("groups", 1) : channels;
      count = channels / groups * pixels;
    }
    const auto of = [&](const Value& value, int64_t i) {
      return layer ? value.data[i % count] : value.data[i / pixels % channels];
    };
    for (int64_t first = 0; count > 0 && first < y.count(); first += count) {
      const Moments moments = standardise(
          x.data, y, first, count, epsilon, centred, [&](int64_t i) { return of(scale, i); },
          [&](int64_t i) { return shift.name.empty() ? 0 : of(shift, i); });
      if (!problem.has("stats")) continue;
      put(mean, first / count, stored(moments.mean, type));
      put(inverse, first / count, stored(moments.inverse, type));
    }
    if (layer) attributes.push_back(int_attribute("axis", given));
    if (op == "GroupNormalization") attributes.push_back(int_attribute("num_groups", groups));
  }
  const bool stats = problem.has("stats");
  TENON_INVALID_IF(stats && op != "LayerNormalization", "{} has no outputs of statistics.", op);
  const auto written = [&] {
    const auto number = [&](const char* name, double value) {
      return test.values(name, type, {}, {value}, Role::kWeight).name;
    };
    const std::string square = test.node("Pow", {x.name, number("two", 2)});
    const std::string mean_of = test.node("ReduceMean", {square, test.integers("last", {-1}).name});
    const std::string root = test.node("Sqrt", {test.node("Add", {mean_of, number("epsilon", epsilon)})});
    return test.node("Mul", {scale.name, test.node("Mul", {x.name, test.node("Reciprocal", {root})})});
  };
  const std::vector<std::string> names =
      nodes ? std::vector{written()} : test.nodes(op, inputs, stats ? 3 : 1, attributes);
  Value result = test.epilogue({names[0], std::move(y)});
  if (problem.has("behind")) {
    const Value other = test.random("behind", type, x.data.dims, -1, 1);
    Value sum{test.node("Add", {result.name, other.name}), Array(type, x.data.dims)};
    for (int64_t i = 0; i < sum.data.count(); ++i)
      put(sum.data, i, stored({result.data[i] + other.data[i], result.data.error(i)}, type));
    result = std::move(sum);
  }
  test.expect(result.name, result.data);
  if (stats) test.expect(names[1], mean);
  if (stats) test.expect(names[2], inverse);
  return {};
}

Status build_lrn(const Problem& problem, Case& test) {
  const DataType type = problem.type;
  const Value x = test.data("x", problem.shapes[0], -2, 3);
  const int64_t size = problem.integer("size", 5), channels = x.data.dims[1];
  const double alpha = static_cast<float>(problem.number("alpha", 1e-4)),
               beta = static_cast<float>(problem.number("beta", 0.75)), k = static_cast<float>(problem.number("k", 1));
  Array y(type, x.data.dims);
  for (int64_t i = 0; i < y.count(); ++i) {
    std::vector<int64_t> at = index_of(i, y.dims);
    const int64_t c = at[1];
    double squares = 0;
    for (int64_t j = std::max<int64_t>(0, c - (size - 1) / 2); j <= std::min(channels - 1, c + size / 2); ++j) {
      at[1] = j;
      const double value = x.data[offset_of(at, y.dims)];
      squares += value * value;
    }
    const double z = x.data[i] / std::pow(k + alpha / static_cast<double>(size) * squares, beta);
    put(y, i,
        stored({z, (8 + sum_bound(type, size, 1) / sum_roundoff(type)) * sum_roundoff(type) * 2 * std::fabs(z)}, type));
  }
  test.expect(
      test.node("LRN", {x.name},
                {int_attribute("size", size), float_attribute("alpha", static_cast<float>(alpha)),
                 float_attribute("beta", static_cast<float>(beta)), float_attribute("bias", static_cast<float>(k))}),
      y);
  return {};
}

Status build_lp(const Problem& problem, Case& test) {
  const DataType type = problem.type;
  const Value x = test.data("x", problem.shapes[0], -2, 3);
  const int64_t given = problem.integer("axis", -1), power = problem.integer("power", 2);
  const auto axis = static_cast<size_t>(axis_of(given, x.data.rank()));
  const int64_t size = x.data.dims[axis];
  Array y(type, x.data.dims);
  for (int64_t i = 0; i < y.count(); ++i) {
    std::vector<int64_t> at = index_of(i, y.dims);
    if (at[axis] != 0) continue;
    double sum = 0;
    for (at[axis] = 0; at[axis] < size; ++at[axis]) {
      const double value = x.data[offset_of(at, y.dims)];
      sum += power == 1 ? std::fabs(value) : value * value;
    }
    const double norm = power == 1 ? sum : std::sqrt(sum);
    for (at[axis] = 0; at[axis] < size; ++at[axis]) {
      const int64_t here = offset_of(at, y.dims);
      const double z = norm == 0 ? 0 : x.data[here] / norm;
      put(y, here, stored({z, (sum_bound(type, size, 1) + 8 * sum_roundoff(type)) * std::fabs(z)}, type));
    }
  }
  test.expect(test.node("LpNormalization", {x.name}, {int_attribute("axis", given), int_attribute("p", power)}), y);
  return {};
}

Status build(const Problem& problem, Case& test) {
  if (problem.op == "LRN") return build_lrn(problem, test);
  if (problem.op == "LpNormalization") return build_lp(problem, test);
  return build_standard(problem, test);
}

}  // namespace

std::vector<Family> norm_families() {
  using Kind = Option::Kind;
  return {{.name = "norm",
           .operators = {"LayerNormalization", "RMSNormalization", "InstanceNormalization", "GroupNormalization",
                         "BatchNormalization", "LRN", "LpNormalization"},
           .fewest_shapes = 1,
           .most_shapes = 1,
           .options = {{"axis", Kind::kInteger},
                       {"groups", Kind::kInteger},
                       {"power", Kind::kInteger},
                       {"size", Kind::kInteger},
                       {"alpha", Kind::kNumber},
                       {"beta", Kind::kNumber},
                       {"k", Kind::kNumber},
                       {"eps", Kind::kNumber},
                       {"nobias"},
                       {"residual"},
                       {"stats"},
                       {"act", Kind::kWord, activation_words()},
                       {"addend"},
                       {"behind"},
                       {"nodes"}},
           .types = kFloats,
           .build = build}};
}

}  // namespace tenon::problems
