// Tensors of uint8 or int8 with one scale and one zero point each, for kernels that go through the values of all 256
// bytes, and as the vector loops take them.
#pragma once

#include <algorithm>
#include <array>
#include <cmath>

#include "ep/cpu/ops/reference_kernel.h"
#include "ep/cpu/simd/quantize.h"
#include "ops/quantized_bytes.h"

namespace tenon::cpu::ref {

using ByteValues = std::array<float, 256>;  // by the bits of the byte

// A quantised tensor of a node: the bytes, or float32 (a part of QLinearConcat).
struct ByteTensor {
  ByteInputs inputs;
  DataType type = DataType::kUndefined;

  int32_t number(uint8_t byte) const { return type == DataType::kInt8 ? static_cast<int8_t>(byte) : byte; }
  float scale(const KernelContext& context) const {
    const auto* value = context.input<float>(inputs.scale);
    return value != nullptr ? *value : 1;
  }
  int32_t zero_point(const KernelContext& context) const {
    const auto* value = context.input<uint8_t>(inputs.zero_point);
    return value != nullptr ? number(*value) : 0;
  }
  ByteStep step(const KernelContext& context) const {
    const bool is_signed = type == DataType::kInt8;
    return {.scale = scale(context),
            .zero = static_cast<float>(zero_point(context) + (is_signed ? 128 : 0)),
            .flip = static_cast<uint8_t>(is_signed ? 0x80 : 0)};
  }
  // The sum of the numbers of `count` bytes.
  int64_t sum(const uint8_t* x, int64_t count) const {
    const bool is_signed = type == DataType::kInt8;
    return static_cast<int64_t>(quantize_table().sum(x, is_signed ? 0x80 : 0, count)) - (is_signed ? 128 * count : 0);
  }
  ByteValues values(const KernelContext& context) const {
    const float step = scale(context);
    const int32_t zero = zero_point(context);
    ByteValues values;
    for (int i = 0; i < 256; ++i) values[i] = step * static_cast<float>(number(static_cast<uint8_t>(i)) - zero);
    return values;
  }
};

// How numbers become bytes: round to even, add the zero point, saturate. NaN becomes the lowest number.
struct ByteStore {
  float scale = 1, zero = 0, low = 0, high = 255;

  ByteStore(const ByteTensor& y, const KernelContext& context)
      : scale(y.scale(context)), zero(static_cast<float>(y.zero_point(context))) {
    if (y.type == DataType::kInt8) low = -128, high = 127;
  }
  uint8_t operator()(float value) const {
    const float q = std::nearbyint(value / scale) + zero;
    return static_cast<uint8_t>(static_cast<int32_t>(q > low ? std::min(q, high) : low));
  }
};

// The operand with its types checked: scales are one float32, zero points one byte of the operand's type.
Result<ByteTensor> byte_tensor(const KernelNode& node, const ByteInputs& inputs, DataType type);

}  // namespace tenon::cpu::ref
