#include "ep/sim/sim_linear.h"

#include <algorithm>

#include "base/checked.h"
#include "ops/conv.h"
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

Result<ConvDesc> read_image_conv(const Shape& x, const Shape& w, const Node& node) {
  TENON_UNSUPPORTED_IF(x.rank() != 4 || w.rank() != 4, "Conv here has two dimensions; shapes are {} and {}.",
                       x.to_string(), w.to_string());
  return read_conv(node, x, w);
}

}  // namespace

Result<std::vector<SimTensor>> infer_conv(const SimInputs& inputs, const Node& node) {
  const Shape& x = inputs.tensors[0].shape;
  const Shape& w = inputs.tensors[1].shape;
  TENON_TRY_ASSIGN(const ConvDesc conv, read_image_conv(x, w, node));
  if (inputs.tensors.size() > 2 && inputs.tensors[2].type != DataType::kUndefined)
    TENON_INVALID_IF(inputs.tensors[2].shape != Shape({w[0]}), "Conv's bias has shape {} for {} channels.",
                     inputs.tensors[2].shape.to_string(), w[0]);
  return one_float_output(conv.output());
}

Status run_conv(const SimRun& run, const Node& node) {
  const Shape& x = run.in[0].shape;
  const Shape& w = run.in[1].shape;
  TENON_TRY_ASSIGN(const ConvDesc conv, read_image_conv(x, w, node));
  const bool has_bias = run.in.size() > 2 && run.in[2].type != DataType::kUndefined;
  const float* bias = has_bias ? floats(run.in_data[2]) : nullptr;
  const WindowAxis &rows = conv.axis(0), &columns = conv.axis(1);
  const int64_t channels_per_group = conv.group_channels(), outputs_per_group = conv.group_outputs();
  float* out = floats(run.out_data[0]);
  for (int64_t n = 0; n < x[0]; ++n)
    for (int64_t m = 0; m < w[0]; ++m)
      for (int64_t oh = 0; oh < rows.out; ++oh)
        for (int64_t ow = 0; ow < columns.out; ++ow) {
          float sum = has_bias ? bias[m] : 0;
          for (int64_t c = 0; c < channels_per_group; ++c) {
            const int64_t channel = m / outputs_per_group * channels_per_group + c;
            const float* plane = floats(run.in_data[0]) + (n * x[1] + channel) * x[2] * x[3];
            const float* weights = floats(run.in_data[1]) + (m * channels_per_group + c) * w[2] * w[3];
            for (int64_t kh = 0; kh < w[2]; ++kh) {
              const int64_t h = oh * rows.stride - rows.pad_begin + kh * rows.dilation;
              if (h < 0 || h >= x[2]) continue;
              for (int64_t kw = 0; kw < w[3]; ++kw) {
                const int64_t col = ow * columns.stride - columns.pad_begin + kw * columns.dilation;
                if (col >= 0 && col < x[3]) sum += plane[h * x[3] + col] * weights[kh * w[3] + kw];
              }
            }
          }
          *out++ = sum;
        }
  return Status();
}

}  // namespace tenon::sim
