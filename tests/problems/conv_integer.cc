// conv_integer: the sizes of conv, the line's type for X, `w=` for the weights; zero points with the flags xzero and
// wzero (one), or channels (one for each output). qlinear_conv: the same with scales, requantised; `bias` is int32;
// symmetric: the zero points of the weights are 0, or 128 for u8; negative: so is the scale of Y.
#include <algorithm>

#include "base/status.h"
#include "graph/model_writer.h"
#include "problems/family.h"
#include "problems/windows.h"

namespace tenon::problems {

namespace {

using namespace model_writer;

// One number for all outputs, or one for each.
double of_output(const Value& value, int64_t output) {
  if (value.name.empty()) return 0;
  return value.data[value.data.count() == 1 ? 0 : output];
}

struct Operands {
  Value x, w, x_zero, w_zero, bias;
};

Operands operands_of(const Problem& problem, Case& test, const Dims& x_dims, const Dims& w_dims, bool linear) {
  const DataType x_type = problem.type, w_type = *type_of(problem.word("w", "i8"));
  const auto zero = [&](const char* name, DataType type, const Dims& dims) {
    return test.random(name, type, dims, lowest(type), highest(type), Role::kWeight);
  };
  Operands made;
  made.x = test.random("x", x_type, x_dims, lowest(x_type), highest(x_type));
  made.w = test.random("w", w_type, w_dims, lowest(w_type), highest(w_type), Role::kWeight);
  if (problem.has("xzero") || linear) made.x_zero = zero("x_zero", x_type, {});
  if (problem.has("symmetric")) {
    const Dims dims = problem.has("channels") ? Dims{w_dims[0]} : Dims{};
    const std::vector<double> middle(static_cast<size_t>(product(dims)), w_type == DataType::kInt8 ? 0 : 128);
    made.w_zero = test.values("w_zero", w_type, dims, middle, Role::kWeight);
  } else if (problem.has("channels")) {
    made.w_zero = zero("w_zero", w_type, {w_dims[0]});
  } else if (problem.has("wzero") || linear) {
    made.w_zero = zero("w_zero", w_type, {});
  }
  if (problem.has("bias")) made.bias = test.random("bias", DataType::kInt32, {w_dims[0]}, -9999, 9999, Role::kWeight);
  return made;
}

Array sums_of(const Operands& o, const Window& window, int64_t groups, const Dims& y_dims) {
  const int64_t channels = o.x.data.dims[1], group_in = channels / groups, group_out = y_dims[1] / groups,
                taps = product(window.kernel), pixels_in = product(window.input), pixels_out = product(window.output);
  Array sums(DataType::kInt32, y_dims);
  for (int64_t i = 0; i < sums.count(); ++i) {
    const int64_t output = i / pixels_out % y_dims[1], image = i / pixels_out / y_dims[1];
    const int64_t first = image * channels + output / group_out * group_in;
    const double x_zero = of_output(o.x_zero, 0), w_zero = of_output(o.w_zero, output);
    sums[i] = of_output(o.bias, output);
    each_tap(window, index_of(i % pixels_out, window.output), [&](int64_t input, int64_t tap) {
      for (int64_t c = 0; c < group_in; ++c) {
        sums[i] += (o.x.data[(first + c) * pixels_in + input] - x_zero) *
                   (o.w.data[(output * group_in + c) * taps + tap] - w_zero);
      }
    });
  }
  return sums;
}

Status build(const Problem& problem, Case& test) {
  TENON_TRY_ASSIGN(const Window window, read_window(problem));
  const int64_t channels = problem.size("c", 1), outputs = problem.size("o", 1), groups = problem.size("g", 1);
  TENON_INVALID_IF(groups < 1 || channels % groups != 0 || outputs % groups != 0,
                   "{} channels and {} outputs do not divide by {} groups.", channels, outputs, groups);
  Dims x_dims = {problem.size("n", 1), channels}, w_dims = {outputs, channels / groups}, y_dims = {x_dims[0], outputs};
  x_dims.insert(x_dims.end(), window.input.begin(), window.input.end());
  w_dims.insert(w_dims.end(), window.kernel.begin(), window.kernel.end());
  y_dims.insert(y_dims.end(), window.output.begin(), window.output.end());
  const bool linear = problem.family->name == "qlinear_conv";
  const Operands o = operands_of(problem, test, x_dims, w_dims, linear);
  const Array sums = sums_of(o, window, groups, y_dims);
  std::vector<std::string> attributes = window.attributes;
  attributes.push_back(ints_attribute("kernel_shape", window.kernel));
  if (groups != 1) attributes.push_back(int_attribute("group", groups));
  if (!linear) {
    test.expect(test.node("ConvInteger", {o.x.name, o.w.name, o.x_zero.name, o.w_zero.name}, attributes), sums);
    return {};
  }
  std::vector<double> steps;
  for (int64_t i = 0; i < (problem.has("channels") ? outputs : 1); ++i)
    steps.push_back(0.01 * static_cast<double>(1 + i % 3));
  const Dims scale_dims = problem.has("channels") ? Dims{outputs} : Dims{};
  const double depth = static_cast<double>(w_dims[1] * product(window.kernel));
  const double y_step = (problem.has("negative") ? -0.01 : 0.01) * std::sqrt(depth);
  const Value x_scale = test.values("x_scale", DataType::kFloat, {}, {0x1p-6}, Role::kWeight),
              w_scale = test.values("w_scale", DataType::kFloat, scale_dims, steps, Role::kWeight),
              y_scale = test.values("y_scale", DataType::kFloat, {}, {y_step}, Role::kWeight),
              y_zero =
                  test.random("y_zero", problem.type, {}, lowest(problem.type), highest(problem.type), Role::kWeight);
  Array y(problem.type, y_dims);
  for (int64_t i = 0; i < y.count(); ++i) {
    const double scale = of_output(w_scale, i / product(window.output) % outputs);
    const double value = sums[i] * x_scale.data[0] * scale / y_scale.data[0];
    y[i] = std::clamp(std::nearbyint(value) + y_zero.data[0], lowest(problem.type), highest(problem.type));
    const double off = std::fabs(value - std::floor(value) - 0.5);
    y.error(i) = off < 8 * unit_roundoff(DataType::kFloat) * (1 + std::fabs(value)) ? 1 : 0;
  }
  test.expect(test.node("QLinearConv",
                        {o.x.name, x_scale.name, o.x_zero.name, o.w.name, w_scale.name, o.w_zero.name, y_scale.name,
                         y_zero.name, o.bias.name},
                        attributes),
              y);
  return {};
}

}  // namespace

std::vector<Family> conv_integer_families() {
  const std::vector<DataType> bytes = {DataType::kUint8, DataType::kInt8};
  const Option weights{"w", Option::Kind::kWord, {"u8", "i8"}};
  const Option pads{"auto_pad", Option::Kind::kWord, {"NOTSET", "SAME_UPPER", "SAME_LOWER", "VALID"}};
  const std::vector<std::vector<std::string>> sizes = {
      {"n", "c", "d", "h", "w"}, {"o"}, {"k"}, {"s"}, {"p"}, {"dil"}, {"g"}};
  return {{.name = "conv_integer",
           .sizes = sizes,
           .options = {weights, pads, {"xzero"}, {"wzero"}, {"channels"}},
           .types = bytes,
           .build = build},
          {.name = "qlinear_conv",
           .sizes = sizes,
           .options = {weights, pads, {"channels"}, {"bias"}, {"symmetric"}, {"negative"}},
           .types = bytes,
           .build = build}};
}

}  // namespace tenon::problems
