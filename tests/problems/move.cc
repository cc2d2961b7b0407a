// Operators that move elements: transpose, slice, pad, concat, split, expand, tile, reshape. Their results are exact.
#include <algorithm>

#include "base/format.h"
#include "base/status.h"
#include "graph/model_writer.h"
#include "problems/family.h"

namespace tenon::problems {

namespace {

using namespace model_writer;

Value data_of(const Problem& problem, Case& test, const std::string& name, const Dims& dims) {
  const DataType type = problem.type;
  return test.data(name, dims, is_float(type) ? -8 : std::max(lowest(type), -99.0),
                   is_float(type) ? 8 : std::min(highest(type), 99.0));
}

Status build_transpose(const Problem& problem, Case& test) {
  const Value x = data_of(problem, test, "x", problem.shapes[0]);
  Dims order = problem.integers("perm");
  if (order.empty())
    for (int i = x.data.rank(); i-- > 0;) order.push_back(i);
  TENON_INVALID_IF(order.size() != x.data.dims.size(), "perm has {} numbers for {} axes.", order.size(), x.data.rank());
  Dims dims;
  for (int64_t axis : order) dims.push_back(x.data.dims[static_cast<size_t>(axis)]);
  const Array y = moved(x.data, dims, [&](int64_t i) {
    const std::vector<int64_t> to = index_of(i, dims);
    std::vector<int64_t> from(to.size());
    for (size_t d = 0; d < to.size(); ++d) from[static_cast<size_t>(order[d])] = to[d];
    return offset_of(from, x.data.dims);
  });
  std::vector<std::string> attributes;
  if (problem.has("perm")) attributes.push_back(ints_attribute("perm", order));
  test.expect(test.node("Transpose", {x.name}, attributes), y);
  return {};
}

Status build_slice(const Problem& problem, Case& test) {
  const Value x = data_of(problem, test, "x", problem.shapes[0]);
  const Dims starts = problem.integers("starts"), ends = problem.integers("ends");
  Dims axes = problem.integers("axes"), steps = problem.integers("steps");
  TENON_INVALID_IF(starts.empty() || starts.size() != ends.size(), "starts and ends have {} and {} numbers.",
                   starts.size(), ends.size());
  std::vector<std::string> inputs = {x.name, test.integers("starts", starts).name, test.integers("ends", ends).name,
                                     axes.empty() ? "" : test.integers("axes", axes).name,
                                     steps.empty() ? "" : test.integers("steps", steps).name};
  if (axes.empty())
    for (size_t i = 0; i < starts.size(); ++i) axes.push_back(static_cast<int64_t>(i));
  if (steps.empty()) steps.assign(starts.size(), 1);
  Dims first(x.data.dims.size(), 0), step(x.data.dims.size(), 1), dims = x.data.dims;
  for (size_t i = 0; i < axes.size(); ++i) {
    const auto axis = static_cast<size_t>(axis_of(axes[i], x.data.rank()));
    const int64_t size = x.data.dims[axis];
    const auto place = [&](int64_t at) { return at < 0 ? at + size : at; };
    // Forwards an index may lie one behind the last, backwards one before the first.
    const bool forwards = steps[i] > 0;
    const int64_t from = std::clamp<int64_t>(place(starts[i]), 0, forwards ? size : size - 1),
                  to = std::clamp<int64_t>(place(ends[i]), forwards ? 0 : -1, forwards ? size : size - 1);
    const int64_t span = forwards ? to - from : from - to, stride = std::abs(steps[i]);
    dims[axis] = std::max<int64_t>(0, (span + stride - 1) / stride);
    first[axis] = from;
    step[axis] = steps[i];
  }
  const Array y = moved(x.data, dims, [&](int64_t i) {
    std::vector<int64_t> at = index_of(i, dims);
    for (size_t d = 0; d < at.size(); ++d) at[d] = first[d] + at[d] * step[d];
    return offset_of(at, x.data.dims);
  });
  test.expect(test.node("Slice", inputs), y);
  return {};
}

Status build_pad(const Problem& problem, Case& test) {
  const Value x = data_of(problem, test, "x", problem.shapes[0]);
  const Dims pads = problem.integers("pads");
  Dims axes = problem.integers("axes");
  const std::string mode = problem.word("mode", "constant");
  const double fill = problem.number("value", 0);
  std::vector<std::string> inputs = {x.name, test.integers("pads", pads).name};
  inputs.push_back(problem.has("value") ? test.values("value", problem.type, {}, {fill}, Role::kWeight).name : "");
  inputs.push_back(axes.empty() ? "" : test.integers("axes", axes).name);
  if (axes.empty())
    for (int i = 0; i < x.data.rank(); ++i) axes.push_back(i);
  TENON_INVALID_IF(pads.size() != 2 * axes.size(), "pads has {} numbers for {} axes.", pads.size(), axes.size());
  Dims before(x.data.dims.size(), 0), dims = x.data.dims;
  for (size_t i = 0; i < axes.size(); ++i) {
    const auto axis = static_cast<size_t>(axis_of(axes[i], x.data.rank()));
    before[axis] = pads[i];
    dims[axis] += pads[i] + pads[axes.size() + i];
  }
  const Array y = moved(
      x.data, dims,
      [&](int64_t i) -> int64_t {
        std::vector<int64_t> at = index_of(i, dims);
        for (size_t d = 0; d < at.size(); ++d) {
          const int64_t size = x.data.dims[d];
          at[d] -= before[d];
          if (at[d] >= 0 && at[d] < size) continue;
          if (mode == "constant") return -1;
          if (mode == "edge") at[d] = std::clamp<int64_t>(at[d], 0, size - 1);
          if (mode == "wrap") at[d] = (at[d] % size + size) % size;
          if (mode == "reflect") {
            const int64_t period = std::max<int64_t>(1, 2 * (size - 1));
            at[d] = (at[d] % period + period) % period;
            if (at[d] >= size) at[d] = period - at[d];
          }
        }
        return offset_of(at, x.data.dims);
      },
      round_to(fill, problem.type));
  test.expect(test.node("Pad", inputs, {string_attribute("mode", mode)}), y);
  return {};
}

Status build_concat(const Problem& problem, Case& test) {
  const int64_t given = problem.integer("axis", 0);
  const int rank = static_cast<int>(problem.shapes[0].size());
  const auto axis = static_cast<size_t>(axis_of(given, rank));
  std::vector<Value> parts;
  std::vector<std::string> names;
  Dims dims = problem.shapes[0];
  TENON_INVALID_IF(axis >= dims.size(), "The axis {} of tensors with {} dimensions.", given, rank);
  dims[axis] = 0;
  for (size_t i = 0; i < problem.shapes.size(); ++i) {
    parts.push_back(data_of(problem, test, format("x{}", i), problem.shapes[i]));
    names.push_back(parts.back().name);
    dims[axis] += problem.shapes[i][axis];
  }
  Array y(problem.type, dims);
  for (int64_t i = 0; i < y.count(); ++i) {
    std::vector<int64_t> at = index_of(i, dims);
    size_t part = 0;
    while (at[axis] >= parts[part].data.dims[axis]) at[axis] -= parts[part++].data.dims[axis];
    y[i] = parts[part].data[offset_of(at, parts[part].data.dims)];
  }
  test.expect(test.node("Concat", names, {int_attribute("axis", given)}), y);
  return {};
}

Status build_split(const Problem& problem, Case& test) {
  const Value x = data_of(problem, test, "x", problem.shapes[0]);
  const int64_t given = problem.integer("axis", 0);
  const auto axis = static_cast<size_t>(axis_of(given, x.data.rank()));
  const Dims parts = problem.integers("parts");
  TENON_INVALID_IF(parts.empty(), "parts is missing.");
  const std::vector<std::string> names =
      test.nodes("Split", {x.name, test.integers("parts", parts).name}, parts.size(), {int_attribute("axis", given)});
  int64_t first = 0;
  for (size_t p = 0; p < parts.size(); ++p) {
    Dims dims = x.data.dims;
    dims[axis] = parts[p];
    test.expect(names[p], moved(x.data, dims, [&](int64_t i) {
                  std::vector<int64_t> at = index_of(i, dims);
                  at[axis] += first;
                  return offset_of(at, x.data.dims);
                }));
    first += parts[p];
  }
  return {};
}

Status build_expand(const Problem& problem, Case& test) {
  const Value x = data_of(problem, test, "x", problem.shapes[0]);
  const Dims dims = broadcast(problem.shapes[0], problem.shapes[1]);
  const Value to = test.integers("to", problem.shapes[1]);
  test.expect(test.node("Expand", {x.name, to.name}),
              moved(x.data, dims, [&](int64_t i) { return broadcast_index(i, dims, x.data.dims); }));
  return {};
}

Status build_tile(const Problem& problem, Case& test) {
  const Value x = data_of(problem, test, "x", problem.shapes[0]);
  const Dims repeats = problem.integers("repeats");
  TENON_INVALID_IF(repeats.size() != x.data.dims.size(), "repeats has {} numbers for {} axes.", repeats.size(),
                   x.data.rank());
  Dims dims = x.data.dims;
  for (size_t i = 0; i < dims.size(); ++i) dims[i] *= repeats[i];
  const Array y = moved(x.data, dims, [&](int64_t i) {
    std::vector<int64_t> at = index_of(i, dims);
    for (size_t d = 0; d < at.size(); ++d) at[d] %= x.data.dims[d];
    return offset_of(at, x.data.dims);
  });
  test.expect(test.node("Tile", {x.name, test.integers("repeats", repeats).name}), y);
  return {};
}

Status build_reshape(const Problem& problem, Case& test) {
  const Value x = data_of(problem, test, "x", problem.shapes[0]);
  const Dims target = problem.integers("to");
  Dims dims = target;
  int64_t known = 1, open = -1;
  for (size_t i = 0; i < dims.size(); ++i) {
    if (dims[i] == 0) dims[i] = x.data.dims[i];
    if (dims[i] < 0) {
      open = static_cast<int64_t>(i);
    } else {
      known *= dims[i];
    }
  }
  if (open >= 0) dims[static_cast<size_t>(open)] = known == 0 ? 0 : x.data.count() / known;
  TENON_INVALID_IF(product(dims) != x.data.count(), "{} elements do not become {}.", x.data.count(), product(dims));
  test.expect(test.node("Reshape", {x.name, test.integers("to", target).name}),
              moved(x.data, dims, [](int64_t i) { return i; }));
  return {};
}

// Channels become pixels, and back; `mode=CRD` orders the channels the other way.
Status build_depth(const Problem& problem, Case& test) {
  const bool to_space = problem.op == "DepthToSpace";
  const int64_t b = problem.integer("block", 2);
  const Dims& in = problem.shapes[0];
  TENON_INVALID_IF(in.size() != 4, "{} takes four dimensions.", problem.op);
  const Value x = data_of(problem, test, "x", in);
  const bool columns_first = problem.word("mode") == "CRD";
  const Dims dims =
      to_space ? Dims{in[0], in[1] / (b * b), in[2] * b, in[3] * b} : Dims{in[0], in[1] * b * b, in[2] / b, in[3] / b};
  const Array y = moved(x.data, dims, [&](int64_t i) {
    const std::vector<int64_t> at = index_of(i, dims);
    if (to_space) {
      const int64_t p = at[2] % b, q = at[3] % b, channels = dims[1];
      const int64_t channel = columns_first ? at[1] * b * b + p * b + q : (p * b + q) * channels + at[1];
      return offset_of({at[0], channel, at[2] / b, at[3] / b}, in);
    }
    const int64_t block = at[1] / in[1];
    return offset_of({at[0], at[1] % in[1], at[2] * b + block / b, at[3] * b + block % b}, in);
  });
  std::vector<std::string> attributes = {int_attribute("blocksize", b)};
  if (to_space && problem.has("mode")) attributes.push_back(string_attribute("mode", problem.word("mode")));
  test.expect(test.node(problem.op, {x.name}, attributes), y);
  return {};
}

}  // namespace

std::vector<Family> move_families() {
  using Kind = Option::Kind;
  return {
      {.name = "transpose",
       .fewest_shapes = 1,
       .most_shapes = 1,
       .options = {{"perm", Kind::kPermutation}},
       .types = kAll,
       .build = build_transpose},
      {.name = "slice",
       .fewest_shapes = 1,
       .most_shapes = 1,
       .options = {{"starts", Kind::kIntegers},
                   {"ends", Kind::kIntegers},
                   {"axes", Kind::kIntegers},
                   {"steps", Kind::kIntegers}},
       .types = kAll,
       .build = build_slice},
      {.name = "pad",
       .fewest_shapes = 1,
       .most_shapes = 1,
       .options = {{"pads", Kind::kIntegers},
                   {"axes", Kind::kIntegers},
                   {"mode", Kind::kWord, {"constant", "reflect", "edge", "wrap"}},
                   {"value", Kind::kNumber}},
       .types = kAll,
       .build = build_pad},
      {.name = "concat",
       .fewest_shapes = 1,
       .most_shapes = 8,
       .options = {{"axis", Kind::kInteger}},
       .types = kAll,
       .build = build_concat},
      {.name = "split",
       .fewest_shapes = 1,
       .most_shapes = 1,
       .options = {{"axis", Kind::kInteger}, {"parts", Kind::kIntegers}},
       .types = kAll,
       .build = build_split},
      {.name = "expand", .fewest_shapes = 2, .most_shapes = 2, .types = kAll, .build = build_expand},
      {.name = "tile",
       .fewest_shapes = 1,
       .most_shapes = 1,
       .options = {{"repeats", Kind::kIntegers}},
       .types = kAll,
       .build = build_tile},
      {.name = "reshape",
       .fewest_shapes = 1,
       .most_shapes = 1,
       .options = {{"to", Kind::kIntegers}},
       .types = kAll,
       .build = build_reshape},
      {.name = "depth",
       .operators = {"DepthToSpace", "SpaceToDepth"},
       .fewest_shapes = 1,
       .most_shapes = 1,
       .options = {{"block", Kind::kInteger}, {"mode", Kind::kWord, {"DCR", "CRD"}}},
       .types = kAll,
       .build = build_depth},
  };
}

}  // namespace tenon::problems
