#include "ep/sim/sim_linear.h"

#include <algorithm>

#include "base/checked.h"
#include "ops/attributes.h"
#include "ops/matmul.h"

namespace tenon::sim {

namespace {

const float* floats(const std::byte* data) { return reinterpret_cast<const float*>(data); }
float* floats(std::byte* data) { return reinterpret_cast<float*>(data); }

Result<std::vector<SimTensor>> one_float_output(const Shape& shape) {
  TENON_TRY_ASSIGN([[maybe_unused]] const size_t bytes, tensor_size_bytes(DataType::kFloat, shape));
  return std::vector<SimTensor>{{DataType::kFloat, shape}};
}

InputShapes shapes_of(std::span<const SimTensor> tensors) {
  InputShapes shapes;
  for (const SimTensor& tensor : tensors)
    shapes.push_back(tensor.type != DataType::kUndefined ? std::optional(tensor.shape) : std::nullopt);
  return shapes;
}

float dot(const float* a, int64_t a_step, const float* b, int64_t count) {
  float sum = 0;
  for (int64_t k = 0; k < count; ++k) sum += a[k * a_step] * b[k];
  return sum;
}

}  // namespace

Result<std::vector<SimTensor>> infer_product(const SimInputs& inputs, const Node& node) {
  TENON_TRY_ASSIGN(const MatMulDesc desc, read_matmul(node, shapes_of(inputs.tensors)));
  return one_float_output(desc.y);
}

size_t product_scratch(std::span<const SimTensor> in, const Node&) { return in[1].size_bytes(); }

void prepare_product(const SimRun& run, const Node& node) {
  const Result<MatMulDesc> desc = read_matmul(node, shapes_of(run.in));
  if (!desc.ok()) return;  // infer_product has refused it
  const float* from = floats(run.in_data[1]);
  float* to = floats(run.scratch);
  const int64_t matrices = desc->b_batch.element_count();
  for (int64_t matrix = 0; matrix < matrices; ++matrix, from += desc->n * desc->k)
    for (int64_t c = 0; c < desc->n; ++c)
      for (int64_t k = 0; k < desc->k; ++k) *to++ = from[k * desc->b_row() + c * desc->b_column()];
}

Status run_product(const SimRun& run, const Node& node) {
  TENON_TRY_ASSIGN(const MatMulDesc desc, read_matmul(node, shapes_of(run.in)));
  const float* addend = desc.addend != kNoInput ? floats(run.in_data[desc.addend]) : nullptr;
  float* out = floats(run.out_data[0]);
  const int64_t batches = desc.batch.element_count();
  for (int64_t i = 0; i < batches; ++i) {
    const float* a = floats(run.in_data[0]) + operand_matrix(desc.batch, desc.a_batch, i) * desc.m * desc.k;
    const float* b = floats(run.scratch) + operand_matrix(desc.batch, desc.b_batch, i) * desc.n * desc.k;
    for (int64_t r = 0; r < desc.m; ++r)
      for (int64_t c = 0; c < desc.n; ++c) {
        float sum = desc.alpha * dot(a + r * desc.a_row(), desc.a_column(), b + c * desc.k, desc.k);
        if (addend != nullptr) sum += desc.beta * addend[r * desc.addend_row + c * desc.addend_column];
        *out++ = sum;
      }
  }
  return Status();
}

namespace {

// A 2-D convolution's numbers: h and w as index 0 and 1.
struct ConvShape {
  int64_t kernel[2], stride[2] = {1, 1}, dilation[2] = {1, 1}, pad_begin[2] = {0, 0}, pad_end[2] = {0, 0};
  int64_t group = 1;
  int64_t out[2];
};

Result<ConvShape> conv_shape(const Shape& x, const Shape& w, const Node& node) {
  ConvShape conv;
  TENON_UNSUPPORTED_IF(x.rank() != 4 || w.rank() != 4, "Conv here has two dimensions; shapes are {} and {}.",
                       x.to_string(), w.to_string());
  conv.group = Attributes(node).integer("group");
  const auto strides = Attributes(node).integers("strides"), dilations = Attributes(node).integers("dilations");
  const auto pads = Attributes(node).integers("pads");
  TENON_INVALID_IF((!strides.empty() && strides.size() != 2) || (!dilations.empty() && dilations.size() != 2) ||
                       (!pads.empty() && pads.size() != 4),
                   "Conv has {} strides, {} dilations and {} pads for two dimensions.", strides.size(),
                   dilations.size(), pads.size());
  TENON_INVALID_IF(
      conv.group < 1 || w[1] <= 0 || x[1] % conv.group != 0 || x[1] / conv.group != w[1] || w[0] % conv.group != 0,
      "Conv of shapes {} and {} has group {}.", x.to_string(), w.to_string(), conv.group);
  for (size_t i = 0; i < 2; ++i) {
    conv.kernel[i] = w[static_cast<int>(2 + i)];
    if (!strides.empty()) conv.stride[i] = strides[i];
    if (!dilations.empty()) conv.dilation[i] = dilations[i];
    if (!pads.empty()) {
      conv.pad_begin[i] = pads[i];
      conv.pad_end[i] = pads[2 + i];
    }
    constexpr int64_t kLargest = int64_t{1} << 30;
    const auto in_range = [](int64_t value, int64_t lowest) { return value >= lowest && value <= kLargest; };
    TENON_INVALID_IF(!in_range(conv.kernel[i], 1) || !in_range(conv.stride[i], 1) || !in_range(conv.dilation[i], 1) ||
                         !in_range(conv.pad_begin[i], 0) || !in_range(conv.pad_end[i], 0) ||
                         !in_range(x[static_cast<int>(2 + i)], 0),
                     "Conv has kernel {}, stride {}, dilation {} and pads {} and {}.", conv.kernel[i], conv.stride[i],
                     conv.dilation[i], conv.pad_begin[i], conv.pad_end[i]);
    const int64_t reach = conv.dilation[i] * (conv.kernel[i] - 1) + 1;
    const int64_t room = x[static_cast<int>(2 + i)] + conv.pad_begin[i] + conv.pad_end[i];
    TENON_INVALID_IF(room < reach, "Conv's window of {} does not fit into {}.", reach, room);
    conv.out[i] = (room - reach) / conv.stride[i] + 1;
  }
  return conv;
}

}  // namespace

Result<std::vector<SimTensor>> infer_conv(const SimInputs& inputs, const Node& node) {
  const Shape& x = inputs.tensors[0].shape;
  const Shape& w = inputs.tensors[1].shape;
  TENON_TRY_ASSIGN(const ConvShape conv, conv_shape(x, w, node));
  if (inputs.tensors.size() > 2 && inputs.tensors[2].type != DataType::kUndefined)
    TENON_INVALID_IF(inputs.tensors[2].shape != Shape({w[0]}), "Conv's bias has shape {} for {} channels.",
                     inputs.tensors[2].shape.to_string(), w[0]);
  return one_float_output({x[0], w[0], conv.out[0], conv.out[1]});
}

Status run_conv(const SimRun& run, const Node& node) {
  const Shape& x = run.in[0].shape;
  const Shape& w = run.in[1].shape;
  TENON_TRY_ASSIGN(const ConvShape conv, conv_shape(x, w, node));
  const bool has_bias = run.in.size() > 2 && run.in[2].type != DataType::kUndefined;
  const float* bias = has_bias ? floats(run.in_data[2]) : nullptr;
  const int64_t channels_per_group = w[1], outputs_per_group = w[0] / conv.group;
  float* out = floats(run.out_data[0]);
  for (int64_t n = 0; n < x[0]; ++n)
    for (int64_t m = 0; m < w[0]; ++m)
      for (int64_t oh = 0; oh < conv.out[0]; ++oh)
        for (int64_t ow = 0; ow < conv.out[1]; ++ow) {
          float sum = has_bias ? bias[m] : 0;
          for (int64_t c = 0; c < channels_per_group; ++c) {
            const int64_t channel = m / outputs_per_group * channels_per_group + c;
            const float* plane = floats(run.in_data[0]) + (n * x[1] + channel) * x[2] * x[3];
            const float* weights = floats(run.in_data[1]) + (m * channels_per_group + c) * w[2] * w[3];
            for (int64_t kh = 0; kh < w[2]; ++kh) {
              const int64_t h = oh * conv.stride[0] - conv.pad_begin[0] + kh * conv.dilation[0];
              if (h < 0 || h >= x[2]) continue;
              for (int64_t kw = 0; kw < w[3]; ++kw) {
                const int64_t col = ow * conv.stride[1] - conv.pad_begin[1] + kw * conv.dilation[1];
                if (col >= 0 && col < x[3]) sum += plane[h * x[3] + col] * weights[kh * w[3] + kw];
              }
            }
          }
          *out++ = sum;
        }
  return Status();
}

}  // namespace tenon::sim
