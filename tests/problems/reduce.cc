// reduce: the Reduce operators, ArgMax and ArgMin of one shape. `axes=` (all without it), `keepdims=0`; for the Arg
// ones `axis=` and the flag last (select_last_index). Before the opset in which axes became an input they are an
// attribute.
#include <algorithm>
#include <limits>

#include "base/status.h"
#include "graph/model_writer.h"
#include "problems/family.h"

namespace tenon::problems {

namespace {

using namespace model_writer;

bool is_arg(const Problem& problem) { return problem.op.starts_with("Arg"); }

// Of the numbers that one element of the output reads, in order.
Number reduced(const Problem& problem, const std::vector<double>& values) {
  const std::string op = problem.op.substr(6);
  const DataType type = problem.type;
  const auto n = static_cast<int64_t>(values.size());
  double sum = 0, magnitude = 0, size = 1;
  double most = -std::numeric_limits<double>::infinity(), least = -most;
  for (double value : values) {
    double term = value;
    if (op == "L1") term = std::fabs(value);
    if (op == "L2" || op == "SumSquare") term = value * value;
    sum += term;
    magnitude += std::fabs(term);
    size *= value;
    most = std::max(most, value);
    least = std::min(least, value);
  }
  const double u = sum_roundoff(type), bound = sum_bound(type, n, magnitude);
  if (op == "Max") return {most};
  if (op == "Min") return {least};
  if (op == "Prod") return {size, static_cast<double>(n) * u * std::fabs(size)};
  if (op == "Mean") return {sum / static_cast<double>(n), bound / static_cast<double>(n)};
  if (op == "L2") return through({sum, bound}, type, 4, [](double x) { return std::sqrt(std::max(0.0, x)); });
  if (op == "LogSum") return through({sum, bound}, type, 8, [](double x) { return std::log(x); });
  if (op == "LogSumExp") {
    double total = 0;
    for (double value : values) total += std::exp(value - most);
    return {most + std::log(total), sum_bound(type, n, 1) + 16 * u * (1 + std::fabs(most) + std::log(total))};
  }
  return {sum, bound};
}

Status build(const Problem& problem, Case& test) {
  const DataType type = problem.type;
  const bool positive = problem.op == "ReduceLogSum", small = problem.op == "ReduceProd";
  double low = is_float(type) ? -2 : lowest(type) < 0 ? -9 : 0, high = is_float(type) ? 2 : 9;
  if (positive || small) low = is_float(type) ? 0.5 : 1;
  if (small) high = is_float(type) ? 1.5 : 1;
  const Value x = test.data("x", problem.shapes[0], low, high);
  const int rank = x.data.rank();
  Dims axes = is_arg(problem) ? Dims{problem.integer("axis", 0)} : problem.integers("axes");
  const bool keep = problem.integer("keepdims", 1) != 0, all = axes.empty();
  std::vector<bool> gone(static_cast<size_t>(rank), all);
  for (int64_t axis : axes) gone[static_cast<size_t>(axis_of(axis, rank))] = true;
  Dims kept, dims, inner;
  for (size_t i = 0; i < gone.size(); ++i) {
    kept.push_back(gone[i] ? 1 : x.data.dims[i]);
    if (gone[i]) inner.push_back(x.data.dims[i]);
    if (!gone[i] || keep) dims.push_back(kept.back());
  }
  Array y(is_arg(problem) ? DataType::kInt64 : type, dims);
  const int64_t count = product(inner);
  for (int64_t i = 0; i < y.count(); ++i) {
    const std::vector<int64_t> at = index_of(i, kept);
    std::vector<double> values;
    for (int64_t k = 0; k < count; ++k) {
      const std::vector<int64_t> within = index_of(k, inner);
      std::vector<int64_t> from = at;
      for (size_t d = 0, next = 0; d < gone.size(); ++d)
        if (gone[d]) from[d] = within[next++];
      values.push_back(x.data[offset_of(from, x.data.dims)]);
    }
    if (is_arg(problem)) {
      size_t best = 0;
      for (size_t k = 1; k < values.size(); ++k) {
        const double a = problem.op == "ArgMax" ? values[k] : -values[k],
                     b = problem.op == "ArgMax" ? values[best] : -values[best];
        if (a > b || (a == b && problem.has("last"))) best = k;
      }
      y[i] = static_cast<double>(best);
    } else {
      Number value = reduced(problem, values);
      if (!is_float(type)) value = {std::trunc(value.v), 0};
      put(y, i, stored(value, type));
    }
  }
  std::vector<std::string> attributes, inputs = {x.name};
  if (problem.has("keepdims")) attributes.push_back(int_attribute("keepdims", keep ? 1 : 0));
  if (is_arg(problem)) {
    attributes.push_back(int_attribute("axis", axes[0]));
    if (problem.has("last")) attributes.push_back(int_attribute("select_last_index", 1));
  } else if (!all) {
    if (test.opset() >= (problem.op == "ReduceSum" ? 13 : 18)) {
      inputs.push_back(test.integers("axes", axes).name);
    } else {
      attributes.push_back(ints_attribute("axes", axes));
    }
  }
  test.expect(test.node(problem.op, inputs, attributes), y);
  return {};
}

}  // namespace

std::vector<Family> reduce_families() {
  return {{.name = "reduce",
           .operators = {"ReduceSum", "ReduceMean", "ReduceMax", "ReduceMin", "ReduceProd", "ReduceL1", "ReduceL2",
                         "ReduceSumSquare", "ReduceLogSum", "ReduceLogSumExp", "ArgMax", "ArgMin"},
           .fewest_shapes = 1,
           .most_shapes = 1,
           .options = {{"axes", Option::Kind::kIntegers},
                       {"axis", Option::Kind::kInteger},
                       {"keepdims", Option::Kind::kInteger},
                       {"last"}},
           .types = kNumbers,
           .build = build}};
}

}  // namespace tenon::problems
