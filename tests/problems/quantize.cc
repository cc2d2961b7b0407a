// quantize and dequantize: one shape, `to=` or the line's type for the integers, one scale or with `axis=` one for each
// place of the axis, the flag zero for zero points. dynamic_quantize: one shape.
#include <algorithm>

#include "base/status.h"
#include "graph/model_writer.h"
#include "problems/family.h"

namespace tenon::problems {

namespace {

using namespace model_writer;

struct Parameters {
  Value scale, zero;
  int64_t inner = 1, count = 1;
  int64_t at(int64_t i) const { return i / inner % count; }
};

Parameters parameters_of(const Problem& problem, Case& test, DataType floating, DataType integer) {
  Parameters made;
  Dims dims;
  const Dims& shape = problem.shapes[0];
  if (problem.has("axis")) {
    const auto axis = static_cast<size_t>(axis_of(problem.integer("axis", 0), static_cast<int>(shape.size())));
    made.count = shape[axis];
    made.inner = product(Dims(shape.begin() + static_cast<ptrdiff_t>(axis) + 1, shape.end()));
    dims = {made.count};
  }
  std::vector<double> scales, zeros;
  for (int64_t i = 0; i < made.count; ++i) {
    scales.push_back(static_cast<double>(1 + i % 3) * (highest(integer) > 255 ? 0x1p-9 : 0x1p-5));
    zeros.push_back(std::clamp(lowest(integer) + 100 + static_cast<double>(i % 20), lowest(integer), highest(integer)));
  }
  made.scale = test.values("scale", floating, dims, scales, Role::kWeight);
  if (problem.has("zero")) made.zero = test.values("zero", integer, dims, zeros, Role::kWeight);
  return made;
}

Status build_quantize(const Problem& problem, Case& test) {
  const std::string word = problem.word("to", "u8");
  const DataType to = *type_of(word);
  const Value x = test.data("x", problem.shapes[0], -8, 8);
  const Parameters p = parameters_of(problem, test, problem.type, to);
  Array y(to, x.data.dims);
  for (int64_t i = 0; i < y.count(); ++i) {
    const double zero = p.zero.name.empty() ? 0 : p.zero.data[p.at(i)];
    y[i] = std::clamp(std::nearbyint(x.data[i] / p.scale.data[p.at(i)]) + zero, lowest(to), highest(to));
    // A scale of three steps is no power of two: a quotient next to a tie may fall to either side.
    const double quotient = x.data[i] / p.scale.data[p.at(i)], off = std::fabs(quotient - std::floor(quotient) - 0.5);
    y.error(i) = off > 0 && off < 4 * unit_roundoff(problem.type) * std::fabs(quotient) ? 1 : 0;
  }
  std::vector<std::string> attributes;
  if (problem.has("axis")) attributes.push_back(int_attribute("axis", problem.integer("axis", 0)));
  if (p.zero.name.empty()) attributes.push_back(int_attribute("output_dtype", static_cast<int64_t>(to)));
  test.expect(test.node("QuantizeLinear", {x.name, p.scale.name, p.zero.name}, attributes), y);
  return {};
}

Status build_dequantize(const Problem& problem, Case& test) {
  const DataType to = *type_of(problem.word("to", "f32"));
  const Value x = test.data("x", problem.shapes[0], lowest(problem.type) < -1e6 ? -1e6 : lowest(problem.type),
                            std::min(highest(problem.type), 1e6));
  const Parameters p = parameters_of(problem, test, to, problem.type);
  Array y(to, x.data.dims);
  for (int64_t i = 0; i < y.count(); ++i) {
    const double zero = p.zero.name.empty() ? 0 : p.zero.data[p.at(i)];
    put(y, i, stored({(x.data[i] - zero) * p.scale.data[p.at(i)], 0}, to));
  }
  std::vector<std::string> attributes;
  if (problem.has("axis")) attributes.push_back(int_attribute("axis", problem.integer("axis", 0)));
  test.expect(test.node("DequantizeLinear", {x.name, p.scale.name, p.zero.name}, attributes), y);
  return {};
}

Status build_dynamic(const Problem& problem, Case& test) {
  const Value x = test.data("x", problem.shapes[0], -3, 5);
  double least = 0, most = 0;
  for (double value : x.data.v) least = std::min(least, value), most = std::max(most, value);
  const double scale = round_to((most - least) / 255, DataType::kFloat), u = unit_roundoff(DataType::kFloat);
  Array y(DataType::kUint8, x.data.dims), scales(DataType::kFloat, {}, scale), zeros(DataType::kUint8, {});
  const double zero = std::clamp(std::nearbyint(-least / scale), 0.0, 255.0);
  zeros[0] = zero;
  scales.error(0) = 2 * u * scale;
  for (int64_t i = 0; i < y.count(); ++i) {
    const double quotient = x.data[i] / scale, off = std::fabs(quotient - std::floor(quotient) - 0.5);
    y[i] = std::clamp(std::nearbyint(quotient) + zero, 0.0, 255.0);
    y.error(i) = off < 8 * u * (1 + std::fabs(quotient)) ? 1 : 0;
  }
  const std::vector<std::string> names = test.nodes("DynamicQuantizeLinear", {x.name}, 3);
  test.expect(names[0], y);
  test.expect(names[1], scales);
  test.expect(names[2], zeros);
  return {};
}

}  // namespace

std::vector<Family> quantize_families() {
  using Kind = Option::Kind;
  const std::vector<DataType> bytes = {DataType::kUint8, DataType::kInt8, DataType::kUint16, DataType::kInt16};
  std::vector<DataType> with_bias = bytes;
  with_bias.push_back(DataType::kInt32);
  return {{.name = "quantize",
           .fewest_shapes = 1,
           .most_shapes = 1,
           .options = {{"to", Kind::kWord, {"u8", "i8", "u16", "i16"}}, {"axis", Kind::kInteger}, {"zero"}},
           .types = {DataType::kFloat, DataType::kFloat16},
           .build = build_quantize},
          {.name = "dequantize",
           .fewest_shapes = 1,
           .most_shapes = 1,
           .options = {{"to", Kind::kWord, {"f32", "f16"}}, {"axis", Kind::kInteger}, {"zero"}},
           .types = with_bias,
           .build = build_dequantize},
          {.name = "dynamic_quantize",
           .fewest_shapes = 1,
           .most_shapes = 1,
           .types = {DataType::kFloat},
           .build = build_dynamic}};
}

}  // namespace tenon::problems
