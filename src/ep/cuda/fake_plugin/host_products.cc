#include "ep/cuda/fake_plugin/host_products.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <vector>

#include "ep/cuda/compute/lowering.h"
#include "ep/cuda/ops/attention/op.h"
#include "ep/cuda/ops/conv/op.h"
#include "ep/cuda/ops/conv/pad_image_op.h"
#include "ep/cuda/ops/quantize/op.h"
#include "ops/activation_formula.h"

namespace tenon::cuda::fake {

namespace {

std::vector<float> floats_at(const void* data, DataType type, int64_t count) {
  return floats_of({.type = type,
                    .shape = Shape{count},
                    .data = static_cast<const std::byte*>(data),
                    .size_bytes = count * data_type_size(type)});
}

void run(const ConvOp& op, const Addresses& addresses) {
  const ConvParams p = op.bound_params(addresses);
  const int64_t area = int64_t{p.out_h} * p.out_w, images = p.pixels / area;
  const int64_t channels = p.in_c / p.group, outputs = p.channels / p.group;
  const std::vector<float> x = floats_at(p.x, op.type(), images * p.in_h * p.in_w * p.in_c);
  const std::vector<float> w = floats_at(p.w, op.type(), int64_t{p.channels} * p.depth);
  const int64_t count = int64_t{p.pixels} * p.channels;
  std::vector<float> residual, y(count);
  if (p.residual != nullptr) residual = floats_at(p.residual, op.type(), count);
  const Epilogue epilogue{p.activation, p.alpha, p.beta, p.residual_after != 0};
  for (int64_t at = 0; at < count; ++at) {
    const int64_t pixel = at / p.channels, output = at % p.channels, image = pixel / area;
    const int64_t row = pixel % area / p.out_w, column = pixel % p.out_w;
    double sum = 0;
    for (int64_t r = 0; r < p.kernel_h; ++r)
      for (int64_t s = 0; s < p.kernel_w; ++s) {
        const int64_t h = row * p.stride_h - p.pad_h + r * p.dilation_h;
        const int64_t v = column * p.stride_w - p.pad_w + s * p.dilation_w;
        if (h < 0 || h >= p.in_h || v < 0 || v >= p.in_w) continue;
        const int64_t from = ((image * p.in_h + h) * p.in_w + v) * p.in_c + output / outputs * channels;
        const int64_t tap = ((output * p.kernel_h + r) * p.kernel_w + s) * channels;
        for (int64_t c = 0; c < channels; ++c) sum += double{x[from + c]} * double{w[tap + c]};
      }
    sum = sum * p.scale + (p.bias != nullptr ? p.bias[output] : 0.0F);
    y[at] = static_cast<float>(evaluate(epilogue, sum, residual.empty() ? 0.0 : double{residual[at]}));
  }
  store_floats(y, op.type(), static_cast<std::byte*>(p.y));
}

int byte_at(const void* bytes, DataType type, int64_t at) {
  return type == DataType::kInt8 ? int{static_cast<const int8_t*>(bytes)[at]}
                                 : int{static_cast<const uint8_t*>(bytes)[at]};
}

int zero_at(const void* zeros, DataType type, int64_t at) { return zeros == nullptr ? 0 : byte_at(zeros, type, at); }

// Where element k of a row of `a` lies; below 0: outside of the image.
int64_t row_element(const IntegerProductParams& p, int64_t matrix, int64_t row, int64_t k) {
  if (p.channels == 0) return matrix * p.a_matrix + row * p.depth + k;
  const int64_t area = int64_t{p.out_h} * p.out_w, tap = k / p.channels;
  const int64_t h = row % area / p.out_w * p.stride_h - p.pad_h + tap / p.kernel_w * p.dilation_h;
  const int64_t v = row % p.out_w * p.stride_w - p.pad_w + tap % p.kernel_w * p.dilation_w;
  if (h < 0 || h >= p.in_h || v < 0 || v >= p.in_w) return -1;
  return ((row / area * p.in_h + h) * p.in_w + v) * p.channels + k % p.channels;
}

void run(const IntegerProductOp& op, const Addresses& addresses) {
  const IntegerProductParams p = op.bound_params(addresses);
  for (int64_t at = 0; at < int64_t{p.batch} * p.rows * p.columns; ++at) {
    const int64_t line = at / p.columns, matrix = line / p.rows, row = line % p.rows, column = at % p.columns;
    const int a_zero = zero_at(p.a_zero, op.a_type(), p.a_zero_step != 0 ? line : 0);
    const int b_zero = zero_at(p.b_zero, op.b_type(), p.b_zero_step != 0 ? column : 0);
    uint32_t sum = 0;
    for (int64_t k = 0; k < p.summed_depth; ++k) {
      const int64_t from = row_element(p, matrix, row, k);
      const int a = from < 0 ? zero_at(p.outside, op.a_type(), 0) : byte_at(p.a, op.a_type(), from);
      const int b = byte_at(p.b, op.b_type(), matrix * p.b_matrix + column * p.depth + k);
      sum += static_cast<uint32_t>((a - a_zero) * (b - b_zero));
    }
    if (p.y_scale == nullptr) {
      static_cast<int32_t*>(p.y)[at] = static_cast<int32_t>(sum);
      continue;
    }
    if (p.bias != nullptr) sum += static_cast<uint32_t>(p.bias[column]);
    const float scale = p.a_scale[0] * p.b_scale[column * p.b_scale_step] / p.y_scale[0];
    const DataType type = p.signed_result != 0 ? DataType::kInt8 : DataType::kUint8;
    const float least = p.signed_result != 0 ? -128.0F : 0.0F;
    const float moved =
        std::nearbyint(static_cast<float>(static_cast<int32_t>(sum)) * scale) + zero_at(p.y_zero, type, 0);
    static_cast<uint8_t*>(p.y)[at] = static_cast<uint8_t>(static_cast<int>(std::clamp(moved, least, least + 255.0F)));
  }
}

void run(const PadImageOp& op, const Addresses& addresses) {
  const DeviceTensor& tensor = addresses.program->tensor(op.reads()[0]);
  const auto size = static_cast<int64_t>(data_type_size(tensor.type));
  const int64_t channels = tensor.shape[1], count = tensor.shape.element_count(), padded = op.padded();
  const int64_t area = count / (tensor.shape[0] * channels);
  const auto* const x = addresses.pointer<const std::byte>(op.reads()[0]);
  auto* const y = addresses.pointer<std::byte>(op.writes()[0]);
  std::fill(y, y + tensor.shape[0] * area * padded * size, std::byte{0});
  for (int64_t at = 0; at < count; ++at) {
    const int64_t image = at / (area * channels), channel = at / area % channels, pixel = at % area;
    std::memcpy(y + ((image * area + pixel) * padded + channel) * size, x + at * size, size);
  }
}

void run(const AttentionOp& op, const Addresses& addresses) {
  const AttentionParams p = op.bound_params(addresses);
  const DataType type = op.type();
  const auto size = static_cast<int64_t>(data_type_size(type));
  const auto number = [&](const void* data, int64_t at) {
    return double{floats_at(static_cast<const std::byte*>(data) + at * size, type, 1)[0]};
  };
  for (int64_t item = 0; item < int64_t{p.batch} * p.heads * p.queries; ++item) {
    const int64_t query = item % p.queries, head = item / p.queries % p.heads, image = item / p.queries / p.heads;
    int64_t keys = p.keys, before = p.before;
    if (p.lengths != nullptr) {
      keys = std::clamp<int64_t>(p.lengths[image] + 1, 0, p.keys);
      before = p.first_run != 0 ? 0 : keys - p.queries;
    }
    if (p.causal != 0) keys = std::clamp<int64_t>(before + query + 1, 0, keys);
    std::vector<double> scores(keys);
    double most = -INFINITY, total = 0;
    for (int64_t key = 0; key < keys; ++key) {
      double sum = 0;
      for (int64_t d = 0; d < p.head_size; ++d)
        sum += number(p.q, image * p.q_batch + head * p.q_head + query * p.q_row + d) *
               number(p.k, image * p.k_batch + head / p.sharing * p.k_head + key * p.k_row + d);
      sum *= double{p.scale};
      if (p.mask != nullptr)
        sum += number(p.mask, image * p.mask_batch + head * p.mask_head + query * p.mask_query + key * p.mask_key);
      scores[key] = sum;
      most = std::max(most, sum);
    }
    for (double& score : scores) total += score = std::exp(score - most);
    const bool zero = keys == 0 || (p.guarded != 0 && !(total > 0));
    for (int64_t d = 0; d < p.value_size; ++d) {
      double sum = 0;
      for (int64_t key = 0; key < keys; ++key)
        sum += scores[key] * number(p.v, image * p.v_batch + head / p.sharing * p.v_head + key * p.v_row + d);
      const auto result = static_cast<float>(zero ? 0.0 : sum / total);
      store_floats({&result, 1}, type,
                   static_cast<std::byte*>(p.y) + (image * p.y_batch + head * p.y_head + query * p.y_row + d) * size);
    }
  }
}

// Parts of f16 are for products that no host computes.
bool is_plain(const AttentionOp* attention) { return attention != nullptr && !attention->writes_parts(); }

}  // namespace

bool is_host_product(const DeviceOp& op) {
  return dynamic_cast<const ConvOp*>(&op) != nullptr || dynamic_cast<const IntegerProductOp*>(&op) != nullptr ||
         dynamic_cast<const PadImageOp*>(&op) != nullptr || is_plain(dynamic_cast<const AttentionOp*>(&op));
}

void run_host_product(const DeviceOp& op, const Addresses& addresses) {
  if (const auto* const conv = dynamic_cast<const ConvOp*>(&op)) run(*conv, addresses);
  if (const auto* const product = dynamic_cast<const IntegerProductOp*>(&op)) run(*product, addresses);
  if (const auto* const attention = dynamic_cast<const AttentionOp*>(&op)) run(*attention, addresses);
  if (const auto* const image = dynamic_cast<const PadImageOp*>(&op)) run(*image, addresses);
}

}  // namespace tenon::cuda::fake
