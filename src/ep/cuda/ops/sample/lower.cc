// GridSample: pixels at computed places.
#include "base/format.h"
#include "ep/cuda/compute/codegen_text.h"
#include "ep/cuda/compute/lowering_maps.h"
#include "ops/sample.h"

namespace tenon::cuda {

namespace {

// Makes `variable`, a coordinate beyond [low, high], one between them, as a ball between walls.
std::string reflected(const std::string& variable, int d, double low, double high) {
  return format(
      "  if ({0} < {2:.1f}f || {0} > {3:.1f}f) {{\n    const float over{1} = {0} < {2:.1f}f ? {2:.1f}f - {0} : {0} - "
      "{3:.1f}f;\n"
      "    const long long turns{1} = (long long)(over{1} / {4:.1f}f);\n    const float rest{1} = over{1} - turns{1} * "
      "{4:.1f}f;\n"
      "    {0} = (turns{1} % 2 == 0) == ({0} < {2:.1f}f) ? {2:.1f}f + rest{1} : {3:.1f}f - rest{1};\n  }}\n",
      variable, d, low, high, high - low);
}

// The weights of four neighbours at the distance `t` behind the second.
constexpr const char* kCubic =
    "  const float t{0} = c{0} - floorf(c{0}), u{0} = 1.0f - t{0};\n"
    "  w{0}[0] = ((-0.75f * (t{0} + 1.0f) + 3.75f) * (t{0} + 1.0f) - 6.0f) * (t{0} + 1.0f) + 3.0f;\n"
    "  w{0}[1] = (1.25f * t{0} - 2.25f) * t{0} * t{0} + 1.0f;\n"
    "  w{0}[2] = (1.25f * u{0} - 2.25f) * u{0} * u{0} + 1.0f;\n"
    "  w{0}[3] = ((-0.75f * (u{0} + 1.0f) + 3.75f) * (u{0} + 1.0f) - 6.0f) * (u{0} + 1.0f) + 3.0f;\n";

}  // namespace

Status lower_grid_sample(Lowering& to, const Node& node) {
  TENON_TRY_ASSIGN(const TensorId from, to.plain(node.inputs[0]));
  TENON_TRY_ASSIGN(const TensorId grid, to.plain(node.inputs[1]));
  const DeviceTensor x = to.program().tensor(from), places = to.program().tensor(grid);
  const int spatial = x.shape.rank() - 2;
  TENON_UNSUPPORTED_IF(compute_type(x.type) != "float" || compute_type(places.type) != "float", "{} samples {}.",
                       to.label(node), data_type_name(x.type));
  TENON_TRY_ASSIGN(const GridSampleDesc sample, read_grid_sample(node, x.shape.dims(), places.shape.dims()));
  const bool nearest = sample.mode == GridSampleDesc::Mode::kNearest,
             cubic = sample.mode == GridSampleDesc::Mode::kCubic, corners = sample.align_corners;
  const bool zeros = sample.padding == GridSampleDesc::Padding::kZeros,
             border = sample.padding == GridSampleDesc::Padding::kBorder,
             reflects = sample.padding == GridSampleDesc::Padding::kReflection;
  const int taps = nearest ? 1 : cubic ? 4 : 2;
  TENON_TRY_ASSIGN(const TensorId out, to.make(node.outputs[0]));
  MapKernel kernel(to, node, "grid_sample");
  kernel.map().dims = dims_of(to.program().tensor(out).shape);
  kernel.read(from, "a");
  kernel.read(grid, "g");
  kernel.write(out, "y");
  TENON_INVALID_IF(x.shape.element_count() == 0 && to.program().tensor(out).shape.element_count() != 0,
                   "{} samples nothing.", to.label(node));
  std::vector<std::string> names = {"i0"};
  for (int d = 0; d < spatial; ++d) names.push_back(format("i{}", d + 2));
  std::vector<int64_t> dims = dims_of(places.shape);
  dims.pop_back();
  std::string& body = kernel.body();
  body = format("  const index_t at = {} * {};\n", dense_address(names, dims), spatial);
  std::string place = format("(i0 * {} + i1)", x.shape[1]), weight, loops, inside;
  for (int d = 0; d < spatial; ++d) {
    const int64_t size = x.shape[d + 2];
    const auto whole = static_cast<double>(size);
    const double low = corners ? 0 : -0.5, high = corners ? whole - 1 : whole - 0.5;
    // The grid names the last dimension first.
    body += format("  float c{0} = {1};\n", d, loaded(places.type, format("g[at + {}]", spatial - 1 - d)));
    body += corners ? format("  c{0} = (c{0} + 1.0f) / 2.0f * {1}.0f;\n", d, size - 1)
                    : format("  c{0} = ((c{0} + 1.0f) * {1}.0f - 1.0f) / 2.0f;\n", d, size);
    if (nearest) body += format("  c{0} = rintf(c{0});\n", d);
    if (border && !cubic)
      body += format("  if (c{0} < {1:.1f}f || c{0} > {2:.1f}f) c{0} = fminf(fmaxf(c{0}, 0.0f), {3}.0f);\n", d, low,
                     high, size - 1);
    if (reflects && high > low) body += reflected(format("c{}", d), d, low, high);
    // What is far outside, or no number, must not become a place. The four neighbours of cubic ones are bounded below.
    body += format(
        "  const float b{0} = fminf(fmaxf(floorf(c{0}), -8.0f), {1}.0f);\n  float w{0}[{2}];\n  place_t p{0}[{2}];\n",
        d, size + 8, taps);
    if (nearest) body += format("  w{}[0] = 1.0f;\n", d);
    if (taps == 2) body += format("  w{0}[1] = c{0} - b{0};\n  w{0}[0] = 1.0f - w{0}[1];\n", d);
    if (cubic) body += format(kCubic, d);
    body +=
        format("  for (int k = 0; k < {1}; ++k) {{\n  float q{0} = b{0} + (float)(k - {2});\n", d, taps, cubic ? 1 : 0);
    if (reflects && high > low) body += reflected(format("q{}", d), d, low, high);
    body += zeros
                ? format("  p{0}[k] = q{0} < 0.0f || q{0} > {1}.0f ? (place_t)-1 : (place_t)q{0};\n  }}\n", d, size - 1)
                : format("  p{0}[k] = (place_t)fminf(fmaxf(q{0}, 0.0f), {1}.0f);\n  }}\n", d, size - 1);
    loops += format("  for (int k{0} = 0; k{0} < {1}; ++k{0})\n", d, taps);
    inside += format("{0}p{1}[k{1}] >= 0", d == 0 ? "" : " && ", d);
    place = format("({} * {} + p{}[k{}])", place, size, d, d);
    weight += format(" * w{0}[k{0}]", d);
  }
  body += format("  float sum = 0;\n{}    if ({}) sum += {}{};\n  y[flat] = {};\n", loops, inside,
                 loaded(x.type, "a[" + place + "]"), weight, stored(x.type, "sum"));
  return kernel.add();
}

}  // namespace tenon::cuda
