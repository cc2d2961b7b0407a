// softmax: Softmax, LogSoftmax and Hardmax of one shape along `axis=`.
#include <algorithm>

#include "base/status.h"
#include "graph/model_writer.h"
#include "problems/family.h"

namespace tenon::problems {

namespace {

using namespace model_writer;

Status build(const Problem& problem, Case& test) {
  const DataType type = problem.type;
  const Value x = test.data("x", problem.shapes[0], -6, 6);
  const int64_t given = problem.integer("axis", -1);
  const auto axis = static_cast<size_t>(axis_of(given, x.data.rank()));
  // Before opset 13 all axes from this one on are one row.
  const bool flat = test.opset() < 13;
  Dims rows = x.data.dims;
  if (flat) {
    rows.resize(axis);
    rows.push_back(product(Dims(x.data.dims.begin() + static_cast<ptrdiff_t>(axis), x.data.dims.end())));
  }
  const int64_t size = rows[axis];
  const double u = sum_roundoff(type);
  Array y(type, x.data.dims);
  for (int64_t i = 0; i < y.count(); ++i) {
    std::vector<int64_t> at = index_of(i, rows);
    if (at[axis] != 0) continue;
    const auto element = [&](int64_t k) {
      at[axis] = k;
      return offset_of(at, rows);
    };
    int64_t first = 0;
    for (int64_t k = 1; k < size; ++k)
      if (x.data[element(k)] > x.data[element(first)]) first = k;
    const double largest = x.data[element(first)];
    double sum = 0;
    for (int64_t k = 0; k < size; ++k) sum += std::exp(x.data[element(k)] - largest);
    for (int64_t k = 0; k < size; ++k) {
      const int64_t e = element(k);
      const double below = x.data[e] - largest;
      // The difference is rounded, exp is wrong by a few units, and so is the sum.
      const double relative = 8 * u * (1 + std::fabs(below)) + sum_bound(type, size, 1);
      if (problem.op == "Softmax") put(y, e, stored({std::exp(below) / sum, std::exp(below) / sum * relative}, type));
      if (problem.op == "LogSoftmax")
        put(y, e, stored({below - std::log(sum), relative + 8 * u * std::fabs(std::log(sum))}, type));
      if (problem.op == "Hardmax") y[e] = k == first;
    }
  }
  test.expect(test.node(problem.op, {x.name}, {int_attribute("axis", given)}), y);
  return {};
}

}  // namespace

std::vector<Family> softmax_families() {
  return {{.name = "softmax",
           .operators = {"Softmax", "LogSoftmax", "Hardmax"},
           .fewest_shapes = 1,
           .most_shapes = 1,
           .options = {{"axis", Option::Kind::kInteger}},
           .types = kFloats,
           .build = build}};
}

}  // namespace tenon::problems
