#include "ops/signal.h"

#include <utility>
#include <vector>

#include "ops/attributes.h"
#include "ops/axes.h"
#include "ops/input_shapes.h"
#include "ops/shape_inference_context.h"

namespace tenon {

namespace {

// Longer transforms are nonsense, and below it no product of a few lengths overflows.
constexpr int64_t kMostSamples = int64_t{1} << 40;

Result<int> read_dft_axis(const Node& node, int rank, std::optional<int64_t> axis) {
  const int64_t given = node.since_version < 20 ? Attributes(node).integer("axis") : axis.value_or(-2);
  TENON_INVALID_IF(rank < 2, "DFT needs a signal of rank 2 or more, not {}.", rank);
  TENON_TRY_ASSIGN(const int d, normalized_axis(given, rank));
  TENON_INVALID_IF(d == rank - 1, "DFT cannot run along the last axis, which has the parts of a number.");
  return d;
}

}  // namespace

Shape DftDesc::output(const Shape& x) const {
  Shape shape = x;
  shape[axis] = out;
  shape[x.rank() - 1] = out_components;
  return shape;
}

Result<DftDesc> read_dft(const Node& node, const Shape& x, std::optional<int64_t> length, std::optional<int64_t> axis) {
  const Attributes attributes(node);
  DftDesc desc{.inverse = attributes.flag("inverse"), .onesided = attributes.flag("onesided")};
  TENON_TRY_ASSIGN(desc.axis, read_dft_axis(node, x.rank(), axis));
  desc.in_components = x[x.rank() - 1];
  TENON_INVALID_IF(desc.in_components != 1 && desc.in_components != 2,
                   "DFT has a signal of shape {}; its last dimension has to be 1 or 2.", x.to_string());
  desc.outer = span_product(x, 0, desc.axis);
  desc.in = x[desc.axis];
  desc.inner = span_product(x, desc.axis + 1, x.rank() - 1);
  const bool halves = desc.inverse && desc.onesided;
  desc.length = length.value_or(halves ? 2 * (desc.in - 1) : desc.in);
  TENON_INVALID_IF(desc.length < 1 || desc.length > kMostSamples, "DFT has the length {}; it has to be in 1 to {}.",
                   desc.length, kMostSamples);
  desc.out = desc.onesided && !desc.inverse ? desc.length / 2 + 1 : desc.length;
  desc.out_components = halves ? 1 : 2;
  return desc;
}

Result<StftDesc> read_stft(const Node& node, const Shape& signal, int64_t step, std::optional<int64_t> window,
                           std::optional<int64_t> frame) {
  StftDesc desc{.onesided = Attributes(node).flag("onesided")};
  // A signal of real numbers may lack the last dimension.
  TENON_INVALID_IF(signal.rank() != 3 && signal.rank() != 2, "STFT needs a signal of rank 3, not {}.",
                   signal.to_string());
  desc.batch = signal[0];
  desc.samples = signal[1];
  desc.components = signal.rank() == 3 ? signal[2] : 1;
  TENON_INVALID_IF(desc.components != 1 && desc.components != 2,
                   "STFT has a signal of shape {}; its last dimension has to be 1 or 2.", signal.to_string());
  TENON_INVALID_IF(!window && !frame, "STFT has neither a window nor a frame_length.");
  desc.length = frame ? *frame : *window;
  TENON_INVALID_IF(window && *window != desc.length, "STFT has a window of {} numbers for frames of {}.", *window,
                   desc.length);
  TENON_INVALID_IF(desc.length < 1 || desc.length > desc.samples, "STFT has frames of {} in a signal of {} numbers.",
                   desc.length, desc.samples);
  desc.step = step;
  TENON_INVALID_IF(step < 1, "STFT has the step {}.", step);
  desc.frames = (desc.samples - desc.length) / step + 1;
  desc.bins = desc.onesided ? desc.length / 2 + 1 : desc.length;
  return desc;
}

WindowFunctionDesc read_window_function(const Node& node) {
  WindowFunctionDesc desc{.periodic = Attributes(node).flag("periodic")};
  double* const c = desc.coefficients;
  if (node.op_type == "HannWindow") {
    c[0] = 0.5, c[1] = -0.5;
  } else if (node.op_type == "HammingWindow") {
    c[0] = 25.0 / 46.0, c[1] = -21.0 / 46.0;
  } else {
    c[0] = 0.42, c[1] = -0.5, c[2] = 0.08;
  }
  return desc;
}

DataType read_output_type(const Node& node) {
  return static_cast<DataType>(Attributes(node).integer("output_datatype"));
}

namespace infer {
namespace {

// The number that a constant input holds. Errors: it holds several.
Result<std::optional<int64_t>> one_number(const Context& c, size_t input, const char* what) {
  const std::optional<std::vector<int64_t>> values = c.values(input);
  if (!values) return std::optional<int64_t>();
  TENON_INVALID_IF(values->size() != 1, "{} has {} numbers as its {}; it needs one.", c.node().op_type, values->size(),
                   what);
  return std::optional<int64_t>((*values)[0]);
}

Status infer_dft(Context& c) {
  c.set_type(0, c.type(0));
  if (!c.ranked(0)) return {};
  TENON_TRY_ASSIGN(const std::optional<int64_t> length, one_number(c, 1, "dft_length"));
  TENON_TRY_ASSIGN(const std::optional<int64_t> axis, one_number(c, 2, "axis"));
  const Attributes attributes(c.node());
  const bool inverse = attributes.flag("inverse"), onesided = attributes.flag("onesided");
  Dims out = c.dims(0);
  TENON_INVALID_IF(out.size() < 2, "DFT needs a signal of rank 2 or more, not {}.", out.size());
  out.back() = number(inverse && onesided ? 1 : 2);
  if (c.has(2) && !axis) {
    for (size_t d = 0; d + 1 < out.size(); ++d) out[d] = Dim{};
    return c.set_dims(0, std::move(out));
  }
  TENON_TRY_ASSIGN(const int d, read_dft_axis(c.node(), c.rank(0), axis));
  const Dim& in = c.dims(0)[d];
  if (length || (!c.has(1) && in.known())) {
    const int64_t all = length.value_or(inverse && onesided ? 2 * (in.value - 1) : in.value);
    TENON_INVALID_IF(all < 1 || all > kMostSamples, "DFT has the length {}; it has to be in 1 to {}.", all,
                     kMostSamples);
    out[d] = number(onesided && !inverse ? all / 2 + 1 : all);
  } else if (c.has(1) || onesided) {
    out[d] = Dim{};
  }
  return c.set_dims(0, std::move(out));
}

Status infer_stft(Context& c) {
  c.set_type(0, c.type(0));
  TENON_TRY_ASSIGN(const std::optional<int64_t> step, one_number(c, 1, "frame_step"));
  TENON_TRY_ASSIGN(const std::optional<int64_t> frame, one_number(c, 3, "frame_length"));
  Dims out = {c.ranked(0) && c.rank(0) > 0 ? c.dims(0)[0] : Dim{}, Dim{}, Dim{}, number(2)};
  const std::optional<int64_t> window = c.has(2) ? c.length(2) : std::nullopt;
  bool known = step && (frame || (!c.has(3) && window)) && c.ranked(0);
  for (size_t d = 0; known && d < c.dims(0).size(); ++d) known = c.dims(0)[d].known();
  if (known) {
    TENON_TRY_ASSIGN(const StftDesc desc, read_stft(c.node(), to_shape(c.dims(0)), *step, window, frame));
    out[1] = number(desc.frames);
    out[2] = number(desc.bins);
  }
  return c.set_dims(0, std::move(out));
}

Status infer_window_function(Context& c) {
  c.set_type(0, read_output_type(c.node()));
  TENON_TRY_ASSIGN(const std::optional<int64_t> size, one_number(c, 0, "size"));
  TENON_INVALID_IF(size && *size < 0, "{} has the size {}.", c.node().op_type, *size);
  return c.set_dims(0, {size ? number(*size) : Dim{}});
}

Status infer_mel_weight_matrix(Context& c) {
  c.set_type(0, read_output_type(c.node()));
  TENON_TRY_ASSIGN(const std::optional<int64_t> bins, one_number(c, 0, "num_mel_bins"));
  TENON_TRY_ASSIGN(const std::optional<int64_t> length, one_number(c, 1, "dft_length"));
  TENON_INVALID_IF((bins && *bins < 0) || (length && *length < 0),
                   "MelWeightMatrix has {} mel bins and a dft_length of {}.", bins.value_or(0), length.value_or(0));
  return c.set_dims(0, {length ? number(*length / 2 + 1) : Dim{}, bins ? number(*bins) : Dim{}});
}

constexpr Row kRows[] = {
    {"BlackmanWindow", &infer_window_function},    {"DFT", &infer_dft},
    {"HammingWindow", &infer_window_function},     {"HannWindow", &infer_window_function},
    {"MelWeightMatrix", &infer_mel_weight_matrix}, {"STFT", &infer_stft},
};

}  // namespace

std::span<const Row> signal_rows() { return kRows; }

}  // namespace infer
}  // namespace tenon
