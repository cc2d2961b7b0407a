// matmul_integer: two shapes, the line's type for A, `b=` for B; zero points with the flags azero and bzero (one), or
// columns (one for each column of B). qlinear_matmul: the same with scales, requantised.
#include <algorithm>

#include "base/status.h"
#include "graph/model_writer.h"
#include "problems/family.h"

namespace tenon::problems {

namespace {

using namespace model_writer;

Status build(const Problem& problem, Case& test) {
  const DataType a_type = problem.type, b_type = *type_of(problem.word("b", "u8"));
  const Dims& p = problem.shapes[0];
  const Dims& q = problem.shapes[1];
  TENON_INVALID_IF(p.size() < 2 || q.size() < 2 || p.back() != q[q.size() - 2], "The products' depths do not fit.");
  const int64_t rows = p[p.size() - 2], depth = p.back(), columns = q.back();
  const Value a = test.random("a", a_type, p, lowest(a_type), highest(a_type));
  const Value b = test.random("b", b_type, q, lowest(b_type), highest(b_type), Role::kWeight);
  const bool linear = problem.family->name == "qlinear_matmul";
  Value a_zero, b_zero;
  if (problem.has("azero") || linear)
    a_zero = test.random("a_zero", a_type, {}, lowest(a_type), highest(a_type), Role::kWeight);
  if (problem.has("columns")) {
    b_zero = test.random("b_zero", b_type, {columns}, lowest(b_type), highest(b_type), Role::kWeight);
  } else if (problem.has("bzero") || linear) {
    b_zero = test.random("b_zero", b_type, {}, lowest(b_type), highest(b_type), Role::kWeight);
  }
  const Dims batch_a(p.begin(), p.end() - 2), batch_b(q.begin(), q.end() - 2), batch = broadcast(batch_a, batch_b);
  Dims dims = batch;
  dims.push_back(rows);
  dims.push_back(columns);
  Array sums(DataType::kInt32, dims);
  for (int64_t i = 0; i < sums.count(); ++i) {
    const int64_t column = i % columns, row = i / columns % rows, m = i / columns / rows;
    const int64_t first_a = (broadcast_index(m, batch, batch_a) * rows + row) * depth,
                  first_b = broadcast_index(m, batch, batch_b) * depth * columns + column;
    const double za = a_zero.name.empty() ? 0 : a_zero.data[0],
                 zb = b_zero.name.empty() ? 0 : b_zero.data[b_zero.data.count() == 1 ? 0 : column];
    for (int64_t k = 0; k < depth; ++k) sums[i] += (a.data[first_a + k] - za) * (b.data[first_b + k * columns] - zb);
  }
  if (!linear) {
    test.expect(test.node("MatMulInteger", {a.name, b.name, a_zero.name, b_zero.name}), sums);
    return {};
  }
  const auto scalar = [&](const char* name, double value) {
    return test.values(name, DataType::kFloat, {}, {value}, Role::kWeight);
  };
  const Value a_scale = scalar("a_scale", 0x1p-6), b_scale = scalar("b_scale", 0.01),
              y_scale = scalar("y_scale", 0.01 * std::sqrt(static_cast<double>(depth))),
              y_zero = test.random("y_zero", a_type, {}, lowest(a_type), highest(a_type), Role::kWeight);
  Array y(a_type, dims);
  for (int64_t i = 0; i < y.count(); ++i) {
    const double value = sums[i] * a_scale.data[0] * b_scale.data[0] / y_scale.data[0];
    y[i] = std::clamp(std::nearbyint(value) + y_zero.data[0], lowest(a_type), highest(a_type));
    const double off = std::fabs(value - std::floor(value) - 0.5);
    y.error(i) = off < 8 * unit_roundoff(DataType::kFloat) * (1 + std::fabs(value)) ? 1 : 0;
  }
  test.expect(test.node("QLinearMatMul", {a.name, a_scale.name, a_zero.name, b.name, b_scale.name, b_zero.name,
                                          y_scale.name, y_zero.name}),
              y);
  return {};
}

}  // namespace

std::vector<Family> matmul_integer_families() {
  const std::vector<DataType> bytes = {DataType::kUint8, DataType::kInt8};
  const Option other{"b", Option::Kind::kWord, {"u8", "i8"}};
  return {{.name = "matmul_integer",
           .fewest_shapes = 2,
           .most_shapes = 2,
           .options = {other, {"azero"}, {"bzero"}, {"columns"}},
           .types = bytes,
           .build = build},
          {.name = "qlinear_matmul",
           .fewest_shapes = 2,
           .most_shapes = 2,
           .options = {other},
           .types = bytes,
           .build = build}};
}

}  // namespace tenon::problems
