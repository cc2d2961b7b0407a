// conv_transpose: sizes as those of conv; `op` is the output padding, `out` the output_shape.
#include "base/status.h"
#include "graph/model_writer.h"
#include "problems/family.h"
#include "problems/windows.h"

namespace tenon::problems {

namespace {

using namespace model_writer;

Status build(const Problem& problem, Case& test) {
  const Dims in = spatial_sizes(problem);
  const size_t axes = in.size();
  TENON_INVALID_IF(axes == 0, "The line has no size w.");
  TENON_TRY_ASSIGN(const Dims kernel, for_axes(problem, "k", axes, 1));
  TENON_TRY_ASSIGN(const Dims strides, for_axes(problem, "s", axes, 1));
  TENON_TRY_ASSIGN(const Dims dilations, for_axes(problem, "dil", axes, 1));
  TENON_TRY_ASSIGN(const Dims extra, for_axes(problem, "op", axes, 0));
  Dims pads = problem.size("p");
  if (pads.empty()) pads = {0};
  if (pads.size() == 1) pads.resize(axes, pads[0]);
  if (pads.size() == axes) pads.insert(pads.end(), pads.begin(), pads.end());
  TENON_INVALID_IF(pads.size() != 2 * axes, "The size p has {} numbers for {} axes.", pads.size(), axes);
  const std::string auto_pad = problem.word("auto_pad");
  const Dims wanted = problem.size("out");
  TENON_INVALID_IF(!wanted.empty() && wanted.size() != axes, "The size out has {} numbers for {} axes.", wanted.size(),
                   axes);
  Dims out(axes);
  for (size_t a = 0; a < axes; ++a) {
    const int64_t whole = (in[a] - 1) * strides[a] + extra[a] + (kernel[a] - 1) * dilations[a] + 1;
    const bool same = auto_pad.starts_with("SAME");
    if (auto_pad == "VALID") pads[a] = pads[axes + a] = 0;
    if (!wanted.empty() || same) {
      out[a] = wanted.empty() ? in[a] * strides[a] : wanted[a];
      const int64_t total = std::max<int64_t>(0, whole - out[a]);
      pads[a] = auto_pad == "SAME_UPPER" ? total / 2 : total - total / 2;
      pads[axes + a] = total - pads[a];
    } else {
      out[a] = whole - pads[a] - pads[axes + a];
    }
  }
  const int64_t batch = problem.size("n", 1), channels = problem.size("c", 1), outputs = problem.size("o", 1),
                groups = problem.size("g", 1);
  TENON_INVALID_IF(groups < 1 || channels % groups != 0 || outputs % groups != 0,
                   "{} channels and {} outputs do not divide by {} groups.", channels, outputs, groups);
  const int64_t group_in = channels / groups, group_out = outputs / groups;
  const int64_t pixels_in = product(in), pixels_out = product(out), taps = product(kernel);
  Dims x_dims = {batch, channels}, w_dims = {channels, group_out}, y_dims = {batch, outputs};
  x_dims.insert(x_dims.end(), in.begin(), in.end());
  w_dims.insert(w_dims.end(), kernel.begin(), kernel.end());
  y_dims.insert(y_dims.end(), out.begin(), out.end());
  const Value x = test.data("x", x_dims), w = test.weight("w", w_dims);
  Value bias;
  if (problem.has("bias")) bias = test.weight("bias", {outputs});

  Array sums(problem.type, y_dims), magnitudes(problem.type, y_dims);
  for (int64_t n = 0; n < batch; ++n)
    for (int64_t pixel = 0; pixel < pixels_in; ++pixel)
      for (int64_t tap = 0; tap < taps; ++tap) {
        const std::vector<int64_t> from = index_of(pixel, in), k = index_of(tap, kernel);
        std::vector<int64_t> to(axes);
        bool inside = true;
        for (size_t a = 0; a < axes; ++a) {
          to[a] = from[a] * strides[a] + k[a] * dilations[a] - pads[a];
          inside = inside && to[a] >= 0 && to[a] < out[a];
        }
        if (!inside) continue;
        const int64_t target = offset_of(to, out);
        for (int64_t c = 0; c < channels; ++c)
          for (int64_t o = 0; o < group_out; ++o) {
            const double term =
                x.data[(n * channels + c) * pixels_in + pixel] * w.data[(c * group_out + o) * taps + tap];
            const int64_t y = (n * outputs + c / group_in * group_out + o) * pixels_out + target;
            sums[y] += term;
            magnitudes[y] += std::fabs(term);
          }
      }
  Value y{"", Array(problem.type, y_dims)};
  for (int64_t i = 0; i < y.data.count(); ++i) {
    const double add = problem.has("bias") ? bias.data[i / pixels_out % outputs] : 0;
    // The product of each tap may be stored before it is added to those of the windows that overlap.
    put(y.data, i,
        stored({sums[i] + add, product_bound(problem.type, group_in * taps, magnitudes[i] + std::fabs(add)) +
                                   unit_roundoff(problem.type) * magnitudes[i]},
               problem.type));
  }
  std::vector<std::string> attributes = {ints_attribute("kernel_shape", kernel)};
  if (!problem.size("s").empty()) attributes.push_back(ints_attribute("strides", strides));
  if (!problem.size("dil").empty()) attributes.push_back(ints_attribute("dilations", dilations));
  if (!problem.size("op").empty()) attributes.push_back(ints_attribute("output_padding", extra));
  if (!problem.size("p").empty()) attributes.push_back(ints_attribute("pads", pads));
  if (!wanted.empty()) attributes.push_back(ints_attribute("output_shape", wanted));
  if (!auto_pad.empty()) attributes.push_back(string_attribute("auto_pad", auto_pad));
  if (groups != 1) attributes.push_back(int_attribute("group", groups));
  y.name = test.node("ConvTranspose", {x.name, w.name, bias.name}, attributes);
  const Value result = test.epilogue(y);
  test.expect(result.name, result.data);
  return {};
}

}  // namespace

std::vector<Family> conv_transpose_families() {
  return {{.name = "conv_transpose",
           .sizes = {{"n", "c", "d", "h", "w"}, {"o"}, {"k"}, {"s"}, {"p"}, {"op"}, {"out"}, {"dil"}, {"g"}},
           .options = {{"bias"},
                       {"auto_pad", Option::Kind::kWord, {"NOTSET", "SAME_UPPER", "SAME_LOWER", "VALID"}},
                       {"act", Option::Kind::kWord, activation_words()},
                       {"residual", Option::Kind::kWord, {"before", "after"}}},
           .types = kFloats,
           .build = build}};
}

}  // namespace tenon::problems
