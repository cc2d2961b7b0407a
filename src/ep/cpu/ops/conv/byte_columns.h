// Shared by the convolutions of bytes on blocks: QLinearConv and tenon.QuantizedConv whose parameters are constants.
#pragma once

#include <vector>

#include "ep/api/kernel.h"
#include "ep/cpu/simd/conv_bytes.h"
#include "ops/conv.h"

namespace tenon::cpu {

// Inputs. From the bias on they are optional, and the last two are those of tenon.QuantizedConv.
inline constexpr size_t kX = 0, kXScale = 1, kXZero = 2, kW = 3, kWScale = 4, kWZero = 5, kYScale = 6, kYZero = 7,
                        kBias = 8, kResidual = 9, kTable = 10;

// The convolution of X, blocked or plain, into blocks; unsupported where an input but X and the table is no constant,
// the weights' zero point is not that of symmetric bytes, or the activation is no bound.
Result<ConvDesc> match_constant_bytes(const KernelNode& node);

// The zero point of X as it counts: of an int8 plus 128.
uint8_t counted_x_zero(const KernelNode& node);

// How the sums of each output channel become numbers: see ConvBytesRun.
struct ByteColumns {
  std::vector<int32_t> terms;
  std::vector<float> scales, bias;

  ByteColumns() = default;
  explicit ByteColumns(size_t count) : terms(count), scales(count), bias(count) {}
  // Column `at` is that of channel `output`, whose weights add up to `sum`.
  void set(const KernelNode& node, int64_t output, int32_t sum, size_t at);
};

// The type of the output, and the bounds of its numbers: those of the activation too, as rounding keeps their order.
struct ByteBounds {
  Int8Output output = Int8Output::kFloat;
  int32_t zero = 0;
  float low = 0, high = 0;
};
Result<ByteBounds> byte_bounds(const KernelNode& node);

}  // namespace tenon::cpu
