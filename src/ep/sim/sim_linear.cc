#include "ep/sim/sim_linear.h"

#include <algorithm>
#include <cstring>

#include "base/checked.h"

namespace tenon::sim {

namespace {

const float* floats(const std::byte* data) { return reinterpret_cast<const float*>(data); }
float* floats(std::byte* data) { return reinterpret_cast<float*>(data); }

Result<std::vector<SimTensor>> one_float_output(const Shape& shape) {
  TENON_TRY_ASSIGN([[maybe_unused]] const size_t bytes, tensor_size_bytes(DataType::kFloat, shape));
  return std::vector<SimTensor>{{DataType::kFloat, shape}};
}

// A MatMul of ranks 1 and up as a batch of matrices.
struct MatMulShape {
  int64_t rows = 1, inner = 1, columns = 1;
  Shape batch;             // broadcast
  Shape a_batch, b_batch;  // without the matrix axes
};

Result<MatMulShape> matmul_shape(const Shape& a, const Shape& b) {
  MatMulShape result;
  TENON_INVALID_IF(a.rank() == 0 || b.rank() == 0, "MatMul takes no scalars: shapes are {} and {}.", a.to_string(),
                   b.to_string());
  result.rows = a.rank() >= 2 ? a[a.rank() - 2] : 1;
  result.inner = a[a.rank() - 1];
  result.columns = b.rank() >= 2 ? b[b.rank() - 1] : 1;
  const int64_t b_inner = b.rank() >= 2 ? b[b.rank() - 2] : b[0];
  TENON_INVALID_IF(result.inner != b_inner, "Shapes {} and {} cannot be multiplied: {} is not {}.", a.to_string(),
                   b.to_string(), result.inner, b_inner);
  for (int i = 0; i + 2 < a.rank(); ++i) result.a_batch.push_back(a[i]);
  for (int i = 0; i + 2 < b.rank(); ++i) result.b_batch.push_back(b[i]);
  const int rank = std::max(result.a_batch.rank(), result.b_batch.rank());
  for (int i = 0; i < rank; ++i) {
    const int ai = i - (rank - result.a_batch.rank()), bi = i - (rank - result.b_batch.rank());
    const int64_t da = ai >= 0 ? result.a_batch[ai] : 1, db = bi >= 0 ? result.b_batch[bi] : 1;
    TENON_INVALID_IF(da != db && da != 1 && db != 1, "The batches of shapes {} and {} do not broadcast.", a.to_string(),
                     b.to_string());
    result.batch.push_back(da == 1 ? db : da);
  }
  return result;
}

// Which matrix of an operand the batch's matrix `index` uses.
int64_t batch_index(int64_t index, const Shape& batch, const Shape& operand) {
  int64_t result = 0, step = 1;
  for (int i = batch.rank() - 1, o = operand.rank() - 1; i >= 0; --i, --o) {
    const int64_t at = index % batch[i];
    index /= batch[i];
    if (o < 0) continue;
    if (operand[o] != 1) result += at * step;
    step *= operand[o];
  }
  return result;
}

// to[column][k] from from[k][column].
void transpose(const float* from, int64_t rows, int64_t columns, float* to) {
  for (int64_t k = 0; k < rows; ++k)
    for (int64_t c = 0; c < columns; ++c) to[c * rows + k] = from[k * columns + c];
}

float dot(const float* a, int64_t a_step, const float* b, int64_t count) {
  float sum = 0;
  for (int64_t k = 0; k < count; ++k) sum += a[k * a_step] * b[k];
  return sum;
}

}  // namespace

Result<std::vector<SimTensor>> infer_matmul(const SimInputs& inputs, const SimAttributes&) {
  const Shape& a = inputs.tensors[0].shape;
  const Shape& b = inputs.tensors[1].shape;
  TENON_TRY_ASSIGN(const MatMulShape matmul, matmul_shape(a, b));
  Shape shape = matmul.batch;
  if (a.rank() >= 2) shape.push_back(matmul.rows);
  if (b.rank() >= 2) shape.push_back(matmul.columns);
  return one_float_output(shape);
}

size_t matmul_scratch(std::span<const SimTensor> in, const SimAttributes&) { return in[1].size_bytes(); }

void prepare_matmul(const SimRun& run, const SimAttributes&) {
  const Result<MatMulShape> matmul = matmul_shape(run.in[0].shape, run.in[1].shape);
  if (!matmul.ok()) return;  // infer_matmul has refused it
  const int64_t matrix = matmul->inner * matmul->columns;
  const int64_t count = matmul->b_batch.element_count();
  for (int64_t m = 0; m < count; ++m)
    transpose(floats(run.in_data[1]) + m * matrix, matmul->inner, matmul->columns, floats(run.scratch) + m * matrix);
}

Status run_matmul(const SimRun& run, const SimAttributes&) {
  TENON_TRY_ASSIGN(const MatMulShape matmul, matmul_shape(run.in[0].shape, run.in[1].shape));
  float* out = floats(run.out_data[0]);
  const int64_t batches = matmul.batch.element_count();
  for (int64_t m = 0; m < batches; ++m) {
    const float* a = floats(run.in_data[0]) + batch_index(m, matmul.batch, matmul.a_batch) * matmul.rows * matmul.inner;
    const float* b = floats(run.scratch) + batch_index(m, matmul.batch, matmul.b_batch) * matmul.inner * matmul.columns;
    for (int64_t r = 0; r < matmul.rows; ++r)
      for (int64_t c = 0; c < matmul.columns; ++c)
        *out++ = dot(a + r * matmul.inner, 1, b + c * matmul.inner, matmul.inner);
  }
  return Status();
}

Result<std::vector<SimTensor>> infer_gemm(const SimInputs& inputs, const SimAttributes& attributes) {
  const Shape& a = inputs.tensors[0].shape;
  const Shape& b = inputs.tensors[1].shape;
  TENON_INVALID_IF(a.rank() != 2 || b.rank() != 2, "Gemm takes matrices; shapes are {} and {}.", a.to_string(),
                   b.to_string());
  const bool trans_a = attributes.integer("transA", 0) != 0, trans_b = attributes.integer("transB", 0) != 0;
  const int64_t inner = a[trans_a ? 0 : 1], b_inner = b[trans_b ? 1 : 0];
  TENON_INVALID_IF(inner != b_inner, "Shapes {} and {} cannot be multiplied: {} is not {}.", a.to_string(),
                   b.to_string(), inner, b_inner);
  const Shape out{a[trans_a ? 1 : 0], b[trans_b ? 0 : 1]};
  if (inputs.tensors.size() > 2 && inputs.tensors[2].type != DataType::kUndefined) {
    const Shape& c = inputs.tensors[2].shape;
    bool fits = c.rank() <= 2;
    for (int i = 0; fits && i < c.rank(); ++i) fits = c[i] == 1 || c[i] == out[2 - c.rank() + i];
    TENON_INVALID_IF(!fits, "The third operand of Gemm has shape {}, which does not broadcast to {}.", c.to_string(),
                     out.to_string());
  }
  return one_float_output(out);
}

size_t gemm_scratch(std::span<const SimTensor> in, const SimAttributes&) { return in[1].size_bytes(); }

void prepare_gemm(const SimRun& run, const SimAttributes& attributes) {
  const Shape& b = run.in[1].shape;
  if (attributes.integer("transB", 0) != 0)
    std::memcpy(run.scratch, run.in_data[1], run.in[1].size_bytes());
  else
    transpose(floats(run.in_data[1]), b[0], b[1], floats(run.scratch));
}

Status run_gemm(const SimRun& run, const SimAttributes& attributes) {
  const bool trans_a = attributes.integer("transA", 0) != 0;
  const float alpha = attributes.number("alpha", 1), beta = attributes.number("beta", 1);
  const Shape& a = run.in[0].shape;
  const int64_t rows = run.out[0].shape[0], columns = run.out[0].shape[1];
  const int64_t inner = a[trans_a ? 0 : 1];
  const bool has_c = run.in.size() > 2 && run.in[2].type != DataType::kUndefined;
  const float* c = has_c ? floats(run.in_data[2]) : nullptr;
  int64_t c_row_step = 0, c_column_step = 0;
  if (has_c) {
    const Shape& shape = run.in[2].shape;
    const int64_t c_columns = shape.rank() >= 1 ? shape[shape.rank() - 1] : 1;
    c_column_step = c_columns == 1 ? 0 : 1;
    c_row_step = shape.rank() == 2 && shape[0] != 1 ? c_columns : 0;
  }
  float* out = floats(run.out_data[0]);
  for (int64_t r = 0; r < rows; ++r)
    for (int64_t col = 0; col < columns; ++col) {
      const float* row = floats(run.in_data[0]) + (trans_a ? r : r * inner);
      float sum = alpha * dot(row, trans_a ? rows : 1, floats(run.scratch) + col * inner, inner);
      if (has_c) sum += beta * c[r * c_row_step + col * c_column_step];
      out[r * columns + col] = sum;
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

Result<ConvShape> conv_shape(const Shape& x, const Shape& w, const SimAttributes& attributes) {
  ConvShape conv;
  TENON_UNSUPPORTED_IF(x.rank() != 4 || w.rank() != 4, "Conv here has two dimensions; shapes are {} and {}.",
                       x.to_string(), w.to_string());
  conv.group = attributes.integer("group", 1);
  const auto strides = attributes.list("strides"), dilations = attributes.list("dilations");
  const auto pads = attributes.list("pads");
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

Result<std::vector<SimTensor>> infer_conv(const SimInputs& inputs, const SimAttributes& attributes) {
  const Shape& x = inputs.tensors[0].shape;
  const Shape& w = inputs.tensors[1].shape;
  TENON_TRY_ASSIGN(const ConvShape conv, conv_shape(x, w, attributes));
  if (inputs.tensors.size() > 2 && inputs.tensors[2].type != DataType::kUndefined)
    TENON_INVALID_IF(inputs.tensors[2].shape != Shape({w[0]}), "Conv's bias has shape {} for {} channels.",
                     inputs.tensors[2].shape.to_string(), w[0]);
  return one_float_output({x[0], w[0], conv.out[0], conv.out[1]});
}

Status run_conv(const SimRun& run, const SimAttributes& attributes) {
  const Shape& x = run.in[0].shape;
  const Shape& w = run.in[1].shape;
  TENON_TRY_ASSIGN(const ConvShape conv, conv_shape(x, w, attributes));
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
