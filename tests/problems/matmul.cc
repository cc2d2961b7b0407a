// matmul: two shapes, broadcast over the leading dimensions; `transa` and `transb` transpose the last two dimensions of
// an operand by a node before the product. gemm: Gemm with its attributes, on two or three shapes (the third is C).
#include "base/status.h"
#include "graph/model_writer.h"
#include "problems/family.h"

namespace tenon::problems {

namespace {

using namespace model_writer;

// Transposed by a Transpose node, which the planner may fold into the product.
Value transposed(Case& test, const Value& x) {
  Dims order(x.data.dims.size());
  for (size_t i = 0; i < order.size(); ++i) order[i] = static_cast<int64_t>(i);
  std::swap(order[order.size() - 1], order[order.size() - 2]);
  Dims dims = x.data.dims;
  std::swap(dims[dims.size() - 1], dims[dims.size() - 2]);
  const int64_t rows = dims[dims.size() - 2], columns = dims.back();
  return {test.node("Transpose", {x.name}, {ints_attribute("perm", order)}), moved(x.data, dims, [&](int64_t i) {
            const int64_t matrix = i / (rows * columns), row = i / columns % rows, column = i % columns;
            return (matrix * columns + column) * rows + row;
          })};
}

Status build_matmul(const Problem& problem, Case& test) {
  Value a = test.data("a", problem.shapes[0]);
  Value b = problem.has("activations") ? test.data("b", problem.shapes[1]) : test.weight("b", problem.shapes[1]);
  TENON_INVALID_IF(a.data.rank() < 1 || b.data.rank() < 1, "A product of a scalar.");
  if (problem.has("transa") && a.data.rank() > 1) a = transposed(test, a);
  if (problem.has("transb") && b.data.rank() > 1) b = transposed(test, b);
  Dims p = a.data.dims, q = b.data.dims;
  if (p.size() == 1) p.insert(p.begin(), 1);
  if (q.size() == 1) q.push_back(1);
  const int64_t rows = p[p.size() - 2], depth = p.back(), columns = q.back();
  TENON_INVALID_IF(q[q.size() - 2] != depth, "The products' depths are {} and {}.", depth, q[q.size() - 2]);
  const Dims batch_a(p.begin(), p.end() - 2), batch_b(q.begin(), q.end() - 2), batch = broadcast(batch_a, batch_b);
  Dims dims = batch;
  if (a.data.rank() > 1) dims.push_back(rows);
  if (b.data.rank() > 1) dims.push_back(columns);

  Value y{test.node("MatMul", {a.name, b.name}), Array(problem.type, dims)};
  const int64_t matrices = product(batch);
  for (int64_t m = 0; m < matrices; ++m) {
    const int64_t first_a = broadcast_index(m, batch, batch_a) * rows * depth,
                  first_b = broadcast_index(m, batch, batch_b) * depth * columns;
    for (int64_t r = 0; r < rows; ++r)
      for (int64_t c = 0; c < columns; ++c) {
        double sum = 0, magnitude = 0;
        for (int64_t k = 0; k < depth; ++k) {
          const double term = a.data[first_a + r * depth + k] * b.data[first_b + k * columns + c];
          sum += term;
          magnitude += std::fabs(term);
        }
        put(y.data, (m * rows + r) * columns + c,
            stored({sum, product_bound(problem.type, depth, magnitude)}, problem.type));
      }
  }
  if (problem.has("scale")) {
    const Value scale = test.values("scale", problem.type, {}, {problem.number("scale", 1)}, Role::kWeight);
    y = {test.node("Mul", {y.name, scale.name}), map(y.data, scale.data, [](double x, double s) { return x * s; })};
  }
  if (problem.has("bias")) {
    const Value bias = test.weight("bias", {columns});
    y = {test.node("Add", {y.name, bias.name}), map(y.data, bias.data, [](double x, double s) { return x + s; })};
  }
  const Value result = test.epilogue(y);
  test.expect(result.name, result.data);
  return {};
}

Status build_gemm(const Problem& problem, Case& test) {
  for (size_t i = 0; i < 2; ++i)
    TENON_INVALID_IF(problem.shapes[i].size() != 2, "Gemm multiplies matrices; shape {} has {} dimensions.", i,
                     problem.shapes[i].size());
  const bool trans_a = problem.has("transa"), trans_b = problem.has("transb");
  const Value a = test.data("a", problem.shapes[0]), b = test.weight("b", problem.shapes[1]);
  const int64_t rows = a.data.dims[trans_a], depth = a.data.dims[!trans_a], columns = b.data.dims[!trans_b];
  TENON_INVALID_IF(b.data.dims[trans_b] != depth, "The products' depths are {} and {}.", depth, b.data.dims[trans_b]);
  Value c;
  if (problem.shapes.size() == 3) c = test.weight("c", problem.shapes[2]);
  const double alpha = static_cast<float>(problem.number("alpha", 1)),
               beta = static_cast<float>(problem.number("beta", 1));
  Value y{"", Array(problem.type, {rows, columns})};
  for (int64_t r = 0; r < rows; ++r)
    for (int64_t j = 0; j < columns; ++j) {
      double sum = 0, magnitude = 0;
      for (int64_t k = 0; k < depth; ++k) {
        const double term =
            a.data[trans_a ? k * rows + r : r * depth + k] * b.data[trans_b ? j * depth + k : k * columns + j];
        sum += term;
        magnitude += std::fabs(term);
      }
      Number z =
          stored({alpha * sum, std::fabs(alpha) * product_bound(problem.type, depth + 1, magnitude)}, problem.type);
      if (!c.name.empty()) {
        const double other = beta * c.data[broadcast_index(r * columns + j, y.data.dims, c.data.dims)];
        z = stored({z.v + other, z.e + 2 * sum_roundoff(problem.type) * std::fabs(other)}, problem.type);
      }
      put(y.data, r * columns + j, z);
    }
  std::vector<std::string> attributes;
  if (trans_a) attributes.push_back(int_attribute("transA", 1));
  if (trans_b) attributes.push_back(int_attribute("transB", 1));
  if (problem.has("alpha")) attributes.push_back(float_attribute("alpha", static_cast<float>(alpha)));
  if (problem.has("beta")) attributes.push_back(float_attribute("beta", static_cast<float>(beta)));
  y.name = test.node("Gemm", {a.name, b.name, c.name}, attributes);
  const Value result = test.epilogue(y);
  test.expect(result.name, result.data);
  return {};
}

}  // namespace

std::vector<Family> matmul_families() {
  std::vector<DataType> types = kFloats;
  types.insert(types.end(), {DataType::kInt32, DataType::kUint32, DataType::kInt64, DataType::kUint64});
  return {{.name = "matmul",
           .fewest_shapes = 2,
           .most_shapes = 2,
           .options = {{"activations"},
                       {"transa"},
                       {"transb"},
                       {"scale", Option::Kind::kNumber},
                       {"bias"},
                       {"act", Option::Kind::kWord, activation_words()},
                       {"residual", Option::Kind::kWord, {"before", "after"}}},
           .types = types,
           .build = build_matmul},
          {.name = "gemm",
           .fewest_shapes = 2,
           .most_shapes = 3,
           .options = {{"transa"},
                       {"transb"},
                       {"alpha", Option::Kind::kNumber},
                       {"beta", Option::Kind::kNumber},
                       {"act", Option::Kind::kWord, activation_words()},
                       {"residual", Option::Kind::kWord, {"before", "after"}}},
           .types = types,
           .build = build_gemm}};
}

}  // namespace tenon::problems
