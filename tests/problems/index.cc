// gather and scatter: Gather, GatherElements, GatherND, ScatterElements, ScatterND. The first shape is the data, the
// second the indices; scatters update as many places as the indices name. Indices are random, negative ones among them;
// with "alike" those of GatherElements and ScatterElements depend on the axis' coordinate alone.
#include <algorithm>
#include <numeric>

#include "base/status.h"
#include "graph/model_writer.h"
#include "problems/family.h"

namespace tenon::problems {

namespace {

using namespace model_writer;

Value data_of(const Problem& problem, Case& test, const std::string& name, const Dims& dims) {
  const DataType type = problem.type;
  return test.data(name, dims, is_float(type) ? -8 : std::max(lowest(type), -9.0),
                   is_float(type) ? 8 : std::min(highest(type), 9.0));
}

Value indices_of(const Problem& problem, Case& test, const Dims& dims, int64_t size) {
  const DataType type = problem.has("narrow") ? DataType::kInt32 : DataType::kInt64;
  return test.random("indices", type, dims, static_cast<double>(-size), static_cast<double>(size - 1),
                     problem.has("constant") ? Role::kWeight : Role::kData);
}

// Index i for an axis of `size`, by its coordinate there; every other one counts from the end.
Value alike_indices(const Problem& problem, Case& test, const Dims& dims, size_t axis, int64_t size) {
  const int64_t step = problem.word("reduction", "none") == "none" ? 1 : 2;
  std::vector<double> drawn;
  for (int64_t i = 0; i < product(dims); ++i) {
    const int64_t at = index_of(i, dims)[axis], target = (at * step + 1) % size;
    drawn.push_back(static_cast<double>(at % 2 == 0 ? target : target - size));
  }
  return test.values("indices", DataType::kInt64, dims, drawn, problem.has("constant") ? Role::kWeight : Role::kData);
}

int64_t place(double index, int64_t size) { return static_cast<int64_t>(index) + (index < 0 ? size : 0); }

Status build_gather(const Problem& problem, Case& test) {
  const Value x = data_of(problem, test, "x", problem.shapes[0]);
  const Dims& shape = problem.shapes[1];
  const int64_t given = problem.integer("axis", 0);
  const auto axis = static_cast<size_t>(axis_of(given, x.data.rank()));
  const auto batch = static_cast<size_t>(problem.integer("batch", 0));
  const std::string& op = problem.op;
  if (op == "GatherND") {
    const auto depth = static_cast<size_t>(shape.back());
    TENON_INVALID_IF(batch + depth > x.data.dims.size(), "GatherND of {} indices.", depth);
    Array indices(DataType::kInt64, shape);
    const int64_t smallest = *std::min_element(x.data.dims.begin(), x.data.dims.end());
    const Value drawn = indices_of(problem, test, shape, smallest);
    Dims dims(shape.begin(), shape.end() - 1);
    dims.insert(dims.end(), x.data.dims.begin() + static_cast<ptrdiff_t>(batch + depth), x.data.dims.end());
    const int64_t inner = product(Dims(x.data.dims.begin() + static_cast<ptrdiff_t>(batch + depth), x.data.dims.end()));
    const int64_t per_batch = product(Dims(shape.begin() + static_cast<ptrdiff_t>(batch), shape.end() - 1));
    const int64_t batch_size = product(Dims(x.data.dims.begin() + static_cast<ptrdiff_t>(batch), x.data.dims.end()));
    const Array y = moved(x.data, dims, [&](int64_t i) {
      const int64_t row = i / inner;
      int64_t at = 0;
      for (size_t d = 0; d < depth; ++d) {
        const int64_t size = x.data.dims[batch + d];
        at = at * size + place(drawn.data[row * static_cast<int64_t>(depth) + static_cast<int64_t>(d)], size);
      }
      return row / per_batch * batch_size + at * inner + i % inner;
    });
    std::vector<std::string> attributes;
    if (batch > 0) attributes.push_back(int_attribute("batch_dims", static_cast<int64_t>(batch)));
    test.expect(test.node(op, {x.name, drawn.name}, attributes), y);
    return {};
  }
  const Value indices = problem.has("alike") ? alike_indices(problem, test, shape, axis, x.data.dims[axis])
                                             : indices_of(problem, test, shape, x.data.dims[axis]);
  Array y;
  if (op == "Gather") {
    Dims dims(x.data.dims.begin(), x.data.dims.begin() + static_cast<ptrdiff_t>(axis));
    dims.insert(dims.end(), shape.begin(), shape.end());
    dims.insert(dims.end(), x.data.dims.begin() + static_cast<ptrdiff_t>(axis) + 1, x.data.dims.end());
    const int64_t inner = product(Dims(x.data.dims.begin() + static_cast<ptrdiff_t>(axis) + 1, x.data.dims.end()));
    const int64_t count = product(shape), size = x.data.dims[axis];
    y = moved(x.data, dims, [&](int64_t i) {
      const int64_t outer = i / inner / count, which = i / inner % count;
      return (outer * size + place(indices.data[which], size)) * inner + i % inner;
    });
  } else {
    y = moved(x.data, shape, [&](int64_t i) {
      std::vector<int64_t> at = index_of(i, shape);
      at[axis] = place(indices.data[i], x.data.dims[axis]);
      return offset_of(at, x.data.dims);
    });
  }
  test.expect(test.node(op, {x.name, indices.name}, {int_attribute("axis", given)}), y);
  return {};
}

Number reduced(const std::string& how, const Number& a, double update, DataType type) {
  if (how == "add") return stored({a.v + update, a.e}, type);
  if (how == "mul") return stored({a.v * update, a.e * std::fabs(update)}, type);
  if (how == "max") return {std::max(a.v, update), a.e};
  if (how == "min") return {std::min(a.v, update), a.e};
  return {update, 0};
}

// Without a reduction no place may be written twice: indices are a permutation then.
Status build_scatter(const Problem& problem, Case& test) {
  const Value x = data_of(problem, test, "x", problem.shapes[0]);
  const Dims& shape = problem.shapes[1];
  const std::string how = problem.word("reduction", "none");
  const int64_t given = problem.integer("axis", 0);
  std::vector<std::string> attributes;
  if (problem.has("reduction")) attributes.push_back(string_attribute("reduction", how));
  Array y = x.data;
  if (problem.op == "ScatterElements") {
    const auto axis = static_cast<size_t>(axis_of(given, x.data.rank()));
    const int64_t size = x.data.dims[axis];
    TENON_INVALID_IF(how == "none" && shape[axis] > size, "{} updates of {} places without a reduction.", shape[axis],
                     size);
    std::vector<double> drawn(static_cast<size_t>(product(shape)));
    for (int64_t i = 0; i < static_cast<int64_t>(drawn.size()); ++i) {
      const std::vector<int64_t> at = index_of(i, shape);
      // A rotation for each line, counted from the end in every other one.
      const int64_t target = (at[axis] * (how == "none" ? 1 : 2) + i / std::max<int64_t>(1, shape[axis])) % size;
      drawn[static_cast<size_t>(i)] = static_cast<double>(i % 2 == 0 ? target : target - size);
    }
    if (how == "none")  // the same rotation along the whole axis
      for (int64_t i = 0; i < static_cast<int64_t>(drawn.size()); ++i) {
        const int64_t target = (index_of(i, shape)[axis] + 1) % size;
        drawn[static_cast<size_t>(i)] = static_cast<double>(i % 2 == 0 ? target : target - size);
      }
    const Value indices = problem.has("alike") ? alike_indices(problem, test, shape, axis, size)
                                               : test.values("indices", DataType::kInt64, shape, drawn,
                                                             problem.has("constant") ? Role::kWeight : Role::kData);
    const Value updates = data_of(problem, test, "updates", shape);
    for (int64_t i = 0; i < updates.data.count(); ++i) {
      std::vector<int64_t> at = index_of(i, shape);
      at[axis] = place(indices.data[i], size);
      const int64_t to = offset_of(at, x.data.dims);
      put(y, to, reduced(how, at.empty() ? Number() : problems::at(y, to), updates.data[i], problem.type));
    }
    attributes.push_back(int_attribute("axis", given));
    test.expect(test.node(problem.op, {x.name, indices.name, updates.name}, attributes), y);
    return {};
  }
  const auto depth = static_cast<size_t>(shape.back());
  const Dims outer(shape.begin(), shape.end() - 1),
      reached(x.data.dims.begin(), x.data.dims.begin() + static_cast<ptrdiff_t>(depth));
  const Dims inner(x.data.dims.begin() + static_cast<ptrdiff_t>(depth), x.data.dims.end());
  const int64_t rows = product(outer), places = product(reached), width = product(inner);
  TENON_INVALID_IF(how == "none" && rows > places, "{} updates of {} places without a reduction.", rows, places);
  std::vector<double> drawn;
  for (int64_t row = 0; row < rows; ++row) {
    const std::vector<int64_t> at = index_of((row * (how == "none" ? 1 : 3) + 1) % places, reached);
    for (size_t d = 0; d < depth; ++d) drawn.push_back(static_cast<double>(row % 2 == 0 ? at[d] : at[d] - reached[d]));
  }
  const Value indices =
      test.values("indices", DataType::kInt64, shape, drawn, problem.has("constant") ? Role::kWeight : Role::kData);
  Dims update_dims = outer;
  update_dims.insert(update_dims.end(), inner.begin(), inner.end());
  const Value updates = data_of(problem, test, "updates", update_dims);
  for (int64_t row = 0; row < rows; ++row) {
    int64_t at = 0;
    for (size_t d = 0; d < depth; ++d)
      at = at * reached[d] +
           place(indices.data[row * static_cast<int64_t>(depth) + static_cast<int64_t>(d)], reached[d]);
    for (int64_t i = 0; i < width; ++i) {
      const int64_t to = at * width + i;
      put(y, to, reduced(how, problems::at(y, to), updates.data[row * width + i], problem.type));
    }
  }
  test.expect(test.node(problem.op, {x.name, indices.name, updates.name}, attributes), y);
  return {};
}

}  // namespace

std::vector<Family> index_families() {
  return {
      {.name = "gather",
       .operators = {"Gather", "GatherElements", "GatherND"},
       .fewest_shapes = 2,
       .most_shapes = 2,
       .options =
           {{"axis", Option::Kind::kInteger}, {"batch", Option::Kind::kInteger}, {"alike"}, {"narrow"}, {"constant"}},
       .types = kAll,
       .build = build_gather},
      {.name = "scatter",
       .operators = {"ScatterElements", "ScatterND"},
       .fewest_shapes = 2,
       .most_shapes = 2,
       .options = {{"axis", Option::Kind::kInteger},
                   {"reduction", Option::Kind::kWord, {"none", "add", "mul", "max", "min"}},
                   {"alike"},
                   {"constant"}},
       .types = kAll,
       .build = build_scatter}};
}

}  // namespace tenon::problems
