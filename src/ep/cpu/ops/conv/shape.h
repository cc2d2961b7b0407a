// Convolutions of up to three spatial dimensions, and pools of one or two, as the kernels of the blocked layout take
// them: slices, rows, columns, taps, epilogue.
#pragma once

#include <algorithm>
#include <cstdint>

#include "ep/api/kernel.h"
#include "ops/activation.h"
#include "ops/pool.h"
#include "ops/window.h"

namespace tenon::cpu {

// Beyond these the reference kernels serve.
inline constexpr int64_t kMostStride = 4096;
inline constexpr int64_t kMostPad = int64_t{1} << 20;

// The taps of one output that fall on inputs.
struct TapRange {
  int64_t first = 0, count = 0;
};
TapRange taps_of(const WindowAxis& axis, int64_t out);
// Each output is made of the input at its place.
inline bool is_point(const WindowAxis& axis) {
  return axis.kernel == 1 && axis.stride == 1 && axis.pad_begin == 0 && axis.out == axis.in;
}
// The outputs whose taps all exist: [begin, end).
struct OutputRange {
  int64_t begin = 0, end = 0;
};
OutputRange interior_of(const WindowAxis& axis);
// The outputs of which this tap exists.
OutputRange outputs_of(const WindowAxis& axis, int64_t tap);

struct ConvShape {
  int64_t batch = 1, channels = 0, outputs = 0, group = 1;
  WindowAxis d;  // depth; a single slice where there are fewer than three spatial dimensions
  WindowAxis h, w;

  int64_t in_blocks() const { return (channels + 7) / 8; }
  int64_t out_blocks() const { return (outputs + 7) / 8; }
  int64_t in_pixels() const { return d.in * h.in * w.in; }
  int64_t out_pixels() const { return d.out * h.out * w.out; }
};

// Conv of 1 to `most_spatial` spatial dimensions, which are at most 3 (ONNX or tenon): the others are refused, and so
// are empty batches and images. One-dimensional ones lie along w.
Result<ConvShape> conv_shape(const KernelNode& node, int most_spatial = 2);
// ConvTranspose of 2 spatial dimensions, one group and no dilation likewise.
Result<ConvShape> transpose_shape(const KernelNode& node);
// MaxPool and AveragePool likewise; channels == outputs == group.
Result<ConvShape> pool_shape(const TensorSpec& x, const PoolDesc& pool);

// Activations that are a clamp to [clamp_low, clamp_high] are done in registers; the others in a pass over what was
// just stored.
bool is_clamp(const Epilogue& epilogue);
float clamp_low(const Epilogue& epilogue);
float clamp_high(const Epilogue& epilogue);
// False: channels that only fill up a block would not stay zero.
bool keeps_zero(const Epilogue& epilogue);

// An ONNX operator that is an activation of one input (Relu, Sigmoid, Clip with constant limits, ...), or
// tenon.Activation.
Result<Epilogue> activation_of(const KernelNode& node);

// A run of outputs of one window operation: `count` neighbours along a row (or down a column), with the same taps.
struct WindowSpan {
  int64_t row = 0, col = 0, count = 0;
  bool down = false;
  TapRange rows, cols;
};

// Where a ConvRun or a WindowRun stores the outputs of a span; `y` and the residuals, or null, are those of the first
// row.
template <typename Run>
void place_outputs(const WindowSpan& span, const WindowAxis& w, float* y, const float* before, const float* after,
                   Run& run) {
  const int64_t at = (span.row * w.out + span.col) * 8;
  run.y = y + at;
  run.residual_before = before == nullptr ? nullptr : before + at;
  run.residual_after = after == nullptr ? nullptr : after + at;
  run.y_pixel = span.down ? w.out * 8 : 8;
  run.pixels = span.count;
}

// Cuts the outputs [row_begin, row_end) x [0, w.out) into spans: the rows of the interior, and the borders around them.
// Border columns of interior rows are runs too, down the column: single pixels there would cost as much as the rest.
template <typename Body>
void for_spans(const WindowAxis& h, const WindowAxis& w, int64_t row_begin, int64_t row_end, const Body& body) {
  const OutputRange inner_h = interior_of(h), inner_w = interior_of(w);
  const TapRange all_h{0, h.kernel}, all_w{0, w.kernel};
  const int64_t top = std::clamp(inner_h.begin, row_begin, row_end), bottom = std::clamp(inner_h.end, top, row_end);
  auto border_row = [&](int64_t row) {
    const TapRange rows = taps_of(h, row);
    for (int64_t col = 0; col < inner_w.begin; ++col) body(WindowSpan{row, col, 1, false, rows, taps_of(w, col)});
    if (inner_w.begin < inner_w.end)
      body(WindowSpan{row, inner_w.begin, inner_w.end - inner_w.begin, false, rows, all_w});
    for (int64_t col = inner_w.end; col < w.out; ++col) body(WindowSpan{row, col, 1, false, rows, taps_of(w, col)});
  };
  for (int64_t row = row_begin; row < top; ++row) border_row(row);
  if (top < bottom) {
    for (int64_t col = 0; col < inner_w.begin; ++col)
      body(WindowSpan{top, col, bottom - top, true, all_h, taps_of(w, col)});
    if (inner_w.begin < inner_w.end)
      for (int64_t row = top; row < bottom; ++row)
        body(WindowSpan{row, inner_w.begin, inner_w.end - inner_w.begin, false, all_h, all_w});
    for (int64_t col = inner_w.end; col < w.out; ++col)
      body(WindowSpan{top, col, bottom - top, true, all_h, taps_of(w, col)});
  }
  for (int64_t row = bottom; row < row_end; ++row) border_row(row);
}

// The same for a window of one column and a stride of 1, of inputs and outputs that lie row after row: the rows of the
// interior continue each other, and are one run.
template <typename Body>
void for_column_spans(const WindowAxis& h, const WindowAxis& w, int64_t row_begin, int64_t row_end, const Body& body) {
  const OutputRange inner = interior_of(h);
  const int64_t top = std::clamp(inner.begin, row_begin, row_end), bottom = std::clamp(inner.end, top, row_end);
  const TapRange one{0, 1};
  const bool down = h.stride != 1;
  for (int64_t row = row_begin; row < top; ++row) body(WindowSpan{row, 0, w.out, false, taps_of(h, row), one});
  if (top < bottom) body(WindowSpan{top, 0, (bottom - top) * w.out, down, {0, h.kernel}, one});
  for (int64_t row = bottom; row < row_end; ++row) body(WindowSpan{row, 0, w.out, false, taps_of(h, row), one});
}

}  // namespace tenon::cpu
