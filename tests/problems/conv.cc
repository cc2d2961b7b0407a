// conv: n, c, (d, h,) w are the input, o the outputs, k, s, p, dil and g the window and its groups; a depthwise
// convolution has as many groups as channels.
#include "base/status.h"
#include "graph/model_writer.h"
#include "problems/family.h"
#include "problems/windows.h"

namespace tenon::problems {

namespace {

Status build(const Problem& problem, Case& test) {
  TENON_TRY_ASSIGN(const Window window, read_window(problem));
  const int64_t batch = problem.size("n", 1), channels = problem.size("c", 1), outputs = problem.size("o", 1),
                groups = problem.size("g", 1);
  TENON_INVALID_IF(groups < 1 || channels % groups != 0 || outputs % groups != 0,
                   "{} channels and {} outputs do not divide by {} groups.", channels, outputs, groups);
  const int64_t group_in = channels / groups, group_out = outputs / groups, taps = product(window.kernel),
                pixels_in = product(window.input), pixels_out = product(window.output);
  Dims x_dims = {batch, channels}, w_dims = {outputs, group_in}, y_dims = {batch, outputs};
  x_dims.insert(x_dims.end(), window.input.begin(), window.input.end());
  w_dims.insert(w_dims.end(), window.kernel.begin(), window.kernel.end());
  y_dims.insert(y_dims.end(), window.output.begin(), window.output.end());
  const Value x = test.data("x", x_dims), w = test.weight("w", w_dims);
  Value bias;
  if (problem.has("bias")) bias = test.weight("bias", {outputs});

  Value y{"", Array(problem.type, y_dims)};
  int64_t element = 0;
  for (int64_t n = 0; n < batch; ++n)
    for (int64_t o = 0; o < outputs; ++o)
      for (int64_t pixel = 0; pixel < pixels_out; ++pixel, ++element) {
        const std::vector<int64_t> at = index_of(pixel, window.output);
        double sum = problem.has("bias") ? bias.data[o] : 0, magnitude = std::fabs(sum);
        each_tap(window, at, [&](int64_t input, int64_t tap) {
          const int64_t first = o / group_out * group_in;
          for (int64_t c = 0; c < group_in; ++c) {
            const double term =
                x.data[(n * channels + first + c) * pixels_in + input] * w.data[(o * group_in + c) * taps + tap];
            sum += term;
            magnitude += std::fabs(term);
          }
        });
        put(y.data, element, stored({sum, product_bound(problem.type, group_in * taps, magnitude)}, problem.type));
      }

  std::vector<std::string> attributes = window.attributes;
  attributes.push_back(model_writer::ints_attribute("kernel_shape", window.kernel));
  if (groups != 1) attributes.push_back(model_writer::int_attribute("group", groups));
  y.name = test.node("Conv", {x.name, w.name, bias.name}, attributes);
  const Value result = test.epilogue(y);
  test.expect(result.name, result.data);
  return {};
}

}  // namespace

std::vector<Family> conv_families() {
  return {{.name = "conv",
           .sizes = {{"n", "c", "d", "h", "w"}, {"o"}, {"k"}, {"s"}, {"p"}, {"dil"}, {"g"}},
           .options = {{"bias"},
                       {"auto_pad", Option::Kind::kWord, {"NOTSET", "SAME_UPPER", "SAME_LOWER", "VALID"}},
                       {"act", Option::Kind::kWord, activation_words()},
                       {"residual", Option::Kind::kWord, {"before", "after"}}},
           .types = kFloats,
           .build = build}};
}

}  // namespace tenon::problems
