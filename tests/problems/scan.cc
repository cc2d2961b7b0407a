// cumsum: one shape, `axis=`, the flags exclusive and reverse. topk: one shape, `k=`, `axis=`, the flag smallest.
#include <algorithm>
#include <numeric>

#include "base/status.h"
#include "graph/model_writer.h"
#include "problems/family.h"

namespace tenon::problems {

namespace {

using namespace model_writer;

Status build_cumsum(const Problem& problem, Case& test) {
  const Value x = test.data("x", problem.shapes[0], is_float(problem.type) ? -1 : 0, is_float(problem.type) ? 1 : 9);
  const int64_t given = problem.integer("axis", 0);
  const auto axis = static_cast<size_t>(axis_of(given, x.data.rank()));
  const int64_t size = x.data.dims[axis];
  const bool exclusive = problem.has("exclusive"), reverse = problem.has("reverse");
  Array y(problem.type, x.data.dims);
  for (int64_t i = 0; i < y.count(); ++i) {
    std::vector<int64_t> at = index_of(i, y.dims);
    if (at[axis] != 0) continue;
    double sum = 0, magnitude = 0;
    for (int64_t k = 0; k < size; ++k) {
      at[axis] = reverse ? size - 1 - k : k;
      const int64_t here = offset_of(at, y.dims);
      const double before = sum, magnitude_before = magnitude;
      sum += x.data[here];
      magnitude += std::fabs(x.data[here]);
      const auto terms = static_cast<double>(exclusive ? k : k + 1);
      const double shown = exclusive ? magnitude_before : magnitude;
      // Each partial sum is stored in the type of the output.
      const double bound =
          sum_bound(problem.type, exclusive ? k : k + 1, shown) + terms * unit_roundoff(problem.type) * shown;
      put(y, here, stored({exclusive ? before : sum, is_float(problem.type) ? bound : 0}, problem.type));
    }
  }
  std::vector<std::string> attributes;
  if (exclusive) attributes.push_back(int_attribute("exclusive", 1));
  if (reverse) attributes.push_back(int_attribute("reverse", 1));
  const Value axis_input = test.values("axis", DataType::kInt64, {}, {static_cast<double>(given)}, Role::kShape);
  test.expect(test.node("CumSum", {x.name, axis_input.name}, attributes), y);
  return {};
}

Status build_topk(const Problem& problem, Case& test) {
  const Value x = test.data("x", problem.shapes[0], is_float(problem.type) ? -8 : 0, is_float(problem.type) ? 8 : 9);
  const int64_t given = problem.integer("axis", -1), k = problem.integer("k", 1);
  const auto axis = static_cast<size_t>(axis_of(given, x.data.rank()));
  const bool smallest = problem.has("smallest");
  TENON_INVALID_IF(k > x.data.dims[axis], "The first {} of {} elements.", k, x.data.dims[axis]);
  Dims dims = x.data.dims;
  dims[axis] = k;
  Array values(problem.type, dims), indices(DataType::kInt64, dims);
  for (int64_t i = 0; i < values.count(); ++i) {
    std::vector<int64_t> at = index_of(i, dims);
    if (at[axis] != 0) continue;
    std::vector<int64_t> order(static_cast<size_t>(x.data.dims[axis]));
    std::iota(order.begin(), order.end(), 0);
    const auto value = [&](int64_t j) {
      std::vector<int64_t> from = at;
      from[axis] = j;
      return x.data[offset_of(from, x.data.dims)];
    };
    // Of equal ones the first comes first.
    std::stable_sort(order.begin(), order.end(),
                     [&](int64_t a, int64_t b) { return smallest ? value(a) < value(b) : value(a) > value(b); });
    for (int64_t j = 0; j < k; ++j) {
      std::vector<int64_t> to = at;
      to[axis] = j;
      values[offset_of(to, dims)] = value(order[static_cast<size_t>(j)]);
      indices[offset_of(to, dims)] = static_cast<double>(order[static_cast<size_t>(j)]);
    }
  }
  std::vector<std::string> attributes = {int_attribute("axis", given)};
  if (smallest) attributes.push_back(int_attribute("largest", 0));
  const Value count = test.integers("k", {k});
  const std::vector<std::string> names = test.nodes("TopK", {x.name, count.name}, 2, attributes);
  test.expect(names[0], values);
  test.expect(names[1], indices);
  return {};
}

}  // namespace

std::vector<Family> scan_families() {
  std::vector<DataType> cumsum = kFloats;
  cumsum.insert(cumsum.end(), {DataType::kInt32, DataType::kInt64, DataType::kUint32, DataType::kUint64});
  return {{.name = "cumsum",
           .fewest_shapes = 1,
           .most_shapes = 1,
           .options = {{"axis", Option::Kind::kInteger}, {"exclusive"}, {"reverse"}},
           .types = cumsum,
           .build = build_cumsum},
          {.name = "topk",
           .fewest_shapes = 1,
           .most_shapes = 1,
           .options = {{"k", Option::Kind::kInteger}, {"axis", Option::Kind::kInteger}, {"smallest"}},
           .types = kNumbers,
           .build = build_topk}};
}

}  // namespace tenon::problems
