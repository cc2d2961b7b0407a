// The parameters of the kernels, as host and device read them. No CUDA header: plain numbers and addresses.
#pragma once

#include <cstdint>

#include "ops/activation.h"

namespace tenon::cuda {

// y = act(conv(x, w) + bias + residual), or act(conv(x, w) + bias) + residual. Channels last; a matrix product is a
// convolution of 1x1 images. Weights are [output channel][kernel row][kernel column][input channel].
struct ConvParams {
  const void* x = nullptr;
  const void* w = nullptr;
  const float* bias = nullptr;  // one a output channel; may be null
  const void* residual = nullptr;
  void* y = nullptr;
  int32_t pixels = 0;    // output pixels of all images: the rows of the product
  int32_t channels = 0;  // output channels: its columns
  int32_t depth = 0;     // kernel rows * kernel columns * input channels
  int32_t in_h = 1, in_w = 1, in_c = 0;
  int32_t out_h = 1, out_w = 1;
  int32_t kernel_h = 1, kernel_w = 1;
  int32_t stride_h = 1, stride_w = 1, pad_h = 0, pad_w = 0, dilation_h = 1, dilation_w = 1;
  int32_t group = 1;
  Activation activation = Activation::kNone;
  float alpha = 0, beta = 0;  // of the activation
  float scale = 1;            // of the product
  int32_t residual_after = 0;
  int32_t constant_weights = 1;  // they may be read before the kernel before this one has ended
};

// y[b] = scale * x[b] * w[b]: x is [rows, depth], w [depth, columns] or, transposed, [columns, depth]; strides in
// elements.
struct ProductParams {
  const void* x = nullptr;
  const void* w = nullptr;
  void* y = nullptr;
  int64_t rows = 0, columns = 0, depth = 0, batch = 1;
  int64_t x_stride = 0, w_stride = 0;
  float scale = 1;
  int32_t transposed_w = 0;
};

struct ActivateParams {
  void* y = nullptr;
  int64_t count = 0;  // a multiple of the elements in 16 bytes
  Activation activation = Activation::kNone;
  float alpha = 0, beta = 0;
};

// The windows of `conv`, [pixels][depth], as f16 parts [pixels][terms][depth], each row scaled by
// 2^-exponent (matmul/split_product.h). Channels and depth are multiples of 8.
struct SplitParams {
  ConvParams conv;
  void* parts = nullptr;
  int32_t* exponents = nullptr;
  int32_t terms = 0;
};

// y = act(product * 2^(row exponent + column exponent) * scale + bias + residual), or with the residual after act; all
// of float32. Columns are a multiple of 8.
struct JoinParams {
  const float* product = nullptr;
  const int32_t* row_exponents = nullptr;  // null: both are 0
  const int32_t* column_exponents = nullptr;
  void* y = nullptr;               // may be null, or `product`
  const float* bias = nullptr;     // may be null
  const void* residual = nullptr;  // may be null
  void* parts = nullptr;           // y * parts_factor as f16 parts [rows][terms][columns]; may be null
  float parts_factor = 1;
  int32_t terms = 0;
  int32_t rows = 0, columns = 0;
  Activation activation = Activation::kNone;
  float alpha = 0, beta = 0, scale = 1;
  int32_t residual_after = 0;
};

// Plain images to channels last, with zeros as further channels.
struct ImageParams {
  const void* x = nullptr;
  void* y = nullptr;
  int32_t images = 0, area = 0, channels = 0;
};

struct PoolParams {
  const void* x = nullptr;
  void* y = nullptr;
  int64_t count = 0;  // output elements (vectors of channels where vectorised)
  int32_t in_h = 1, in_w = 1, channels = 0, out_h = 1, out_w = 1;
  int32_t kernel_h = 1, kernel_w = 1, stride_h = 1, stride_w = 1, pad_h = 0, pad_w = 0, dilation_h = 1, dilation_w = 1;
  int32_t average = 0;
  int32_t count_padding = 0;  // average: how many elements a window has is as if padding counted
  int32_t pad_end_h = 0, pad_end_w = 0;
};

struct LayerNormParams {
  const void* x = nullptr;
  const void* skip = nullptr;  // may be null
  const float* scale = nullptr;
  const float* bias = nullptr;  // may be null
  void* y = nullptr;            // may be null where there are f16 parts
  void* sum = nullptr;          // x + skip; may be null
  void* parts = nullptr;        // of float32: y * parts_factor as f16 parts [rows][terms][columns]; may be null
  float parts_factor = 1;
  int32_t terms = 0;
  int32_t rows = 0, columns = 0;
  float epsilon = 0;
};

struct SoftmaxParams {
  const void* x = nullptr;
  void* y = nullptr;
  int32_t rows = 0, columns = 0;
  int32_t logarithm = 0;
  int32_t guarded = 0;  // zeros instead of a row of NaN
};

// Element strides, from one batch, head and position to the next. mask strides are 0 where it broadcasts.
struct AttentionParams {
  const void* q = nullptr;
  const void* k = nullptr;
  const void* v = nullptr;
  const void* mask = nullptr;  // added to the scaled scores
  void* y = nullptr;           // may be null where there are f16 parts
  void* parts = nullptr;       // of float32: y * parts_factor as f16 parts [rows][terms][y_row]; may be null
  float parts_factor = 1;
  int32_t terms = 0;
  int32_t batch = 0, heads = 0, queries = 0, keys = 0, head_size = 0, value_size = 0;
  int32_t sharing = 1;  // heads of queries that share one of keys
  int64_t q_batch = 0, q_head = 0, q_row = 0, k_batch = 0, k_head = 0, k_row = 0, v_batch = 0, v_head = 0, v_row = 0;
  int64_t y_batch = 0, y_head = 0, y_row = 0;
  int64_t mask_batch = 0, mask_head = 0, mask_query = 0, mask_key = 0;
  // A query sees the keys up to its position, the first one's being `before`. With `lengths` (the last position of each
  // batch) a batch has so many keys, and its queries are the last ones, or with `first_run` begin at 0.
  int32_t causal = 0, before = 0, first_run = 0;
  const int32_t* lengths = nullptr;
  float scale = 1;
  int32_t guarded = 0;       // zeros for a query whose probabilities are NaN
  int32_t half_vectors = 0;  // heads and rows are multiples of 8 bytes, not of 16
  int32_t mask_vectors = 0;  // 16 bytes of a float32 mask, 4 of a 16-bit one, are neighbouring keys, aligned
};

}  // namespace tenon::cuda
