// The parameters of the integer product's kernel, as host and device read them.
#pragma once

#include <cstdint>

namespace tenon::cuda {

// y[row][column] = the sum over the depth of (a - a_zero) * (b - b_zero); a is [row][depth], b [column][depth], of
// bytes.
struct IntegerProductParams {
  const void* a = nullptr;
  const void* b = nullptr;
  void* y = nullptr;  // int32_t, or bytes
  // Zero points, of the type of a or b: one, or one a row of a (`a_zero_step` 1), one a column (`b_zero_step`). May be
  // null, which is 0.
  const void* a_zero = nullptr;
  const void* b_zero = nullptr;
  const int32_t* a_sums = nullptr;  // of the rows of a; where b has zero points
  const int32_t* b_sums = nullptr;  // of the rows of b; where a has zero points
  int32_t rows = 0, columns = 0;
  int32_t depth = 0;         // in memory: a multiple of 16, filled up with zeros
  int32_t summed_depth = 0;  // without what it is filled up with
  int32_t a_zero_step = 0, b_zero_step = 0;
  int32_t batch = 1;
  int64_t a_matrix = 0, b_matrix = 0;  // bytes from one matrix of the batch to the next
  // Where y_scale is given, the results are bytes: rounded (sum + bias) * (a_scale * b_scale / y_scale), plus y_zero
  // and limited to the type. One of each; of b_scale one a column where its step is 1, of the bias, which may be null,
  // always.
  const float* a_scale = nullptr;
  const float* b_scale = nullptr;
  const float* y_scale = nullptr;
  const void* y_zero = nullptr;
  const int32_t* bias = nullptr;
  int32_t b_scale_step = 0;
  int32_t signed_result = 0;
  // Where there are channels, which are a multiple of 16, a is an image with channels last, whose windows are the rows:
  // [kernel row][kernel column][channel]. What lies outside is 0, or the 16 bytes at `outside`.
  int32_t channels = 0, in_h = 0, in_w = 0, out_h = 0, out_w = 0;
  int32_t kernel_h = 1, kernel_w = 1, stride_h = 1, stride_w = 1, dilation_h = 1, dilation_w = 1, pad_h = 0, pad_w = 0;
  const void* outside = nullptr;
};

}  // namespace tenon::cuda
