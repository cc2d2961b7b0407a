#include "ep/cpu/ops/conv/byte_columns.h"

#include <algorithm>
#include <cmath>

#include "ep/cpu/ops/conv/shape.h"
#include "ep/cpu/ops/kernel_support.h"
#include "ep/cpu/ops/quantize/step.h"
#include "ep/cpu/ops/vector_kernel.h"
#include "ops/unary.h"

namespace tenon::cpu {

namespace {

using nn::constant_input;
using nn::input_spec;
using nn::output_spec;

bool is_byte(DataType type) { return type == DataType::kUint8 || type == DataType::kInt8; }

// Element `index` of a constant, or its only one; 0 where it is absent.
int32_t byte_at(const KernelNode& node, size_t input, int64_t index) {
  const Constant* const constant = constant_input(node, input);
  if (constant == nullptr) return 0;
  const std::span<const uint8_t> bytes = constant->as<uint8_t>();
  return nn::integer_zero(bytes.data(), constant->type == DataType::kInt8, bytes.size() > 1 ? index : 0);
}

float float_at(const KernelNode& node, size_t input, int64_t index) {
  const std::span<const float> values = constant_input(node, input)->as<float>();
  return values[values.size() > 1 ? index : 0];
}

Result<Epilogue> epilogue_of(const KernelNode& node) {
  if (node.node->domain != "tenon") return Epilogue{};
  return read_epilogue(*node.node);
}

}  // namespace

Result<ConvDesc> match_constant_bytes(const KernelNode& node) {
  const TensorSpec &x = input_spec(node, kX), &w = input_spec(node, kW), &y = output_spec(node, 0);
  TENON_UNSUPPORTED_IF(!is_byte(x.type) || !is_byte(w.type), "A convolution of {} and {} is not one of bytes.",
                       data_type_name(x.type), data_type_name(w.type));
  TENON_TRY(expect_layout(y, Layout::kBlocked8, "The output"));
  TENON_UNSUPPORTED_IF(y.dynamic || x.shape.rank() > 5, "The input has rank {}.", x.shape.rank());
  TENON_TRY_ASSIGN(ConvDesc conv, read_conv(*node.node, x.shape, w.shape));
  TENON_UNSUPPORTED_IF(conv.batch == 0 || conv.channels == 0 || conv.outputs == 0 || conv.window.out_count() == 0 ||
                           conv.window.kernel_count() == 0,
                       "The convolution is empty.");
  for (int i = 0; i < conv.spatial(); ++i) {
    const WindowAxis& axis = conv.axis(i);
    TENON_UNSUPPORTED_IF(axis.stride > 64 || axis.pad_begin > kMostPad || axis.reach() > kMostPad,
                         "Spatial dimension {} has a stride of {}, a pad of {} and taps over {} elements.", i,
                         axis.stride, axis.pad_begin, axis.reach());
  }
  const auto elements = [&](size_t input) { return input_spec(node, input).shape.element_count(); };
  for (size_t input = kXScale; input <= kBias; ++input) {
    if (!input_spec(node, input).present()) continue;
    TENON_UNSUPPORTED_IF(constant_input(node, input) == nullptr, "Input {} is no constant.", input);
    const bool one = input != kW && input != kBias && elements(input) == 1;
    const bool each = (input == kWScale || input == kWZero || input == kBias) && elements(input) == conv.outputs;
    TENON_UNSUPPORTED_IF(input != kW && !one && !each, "Input {} has {} elements for {} outputs.", input,
                         elements(input), conv.outputs);
  }
  TENON_UNSUPPORTED_IF(input_spec(node, kResidual).present(), "There is a residual.");
  TENON_UNSUPPORTED_IF(y.type != DataType::kFloat && (!is_byte(y.type) || !input_spec(node, kYScale).present()),
                       "The output is {}.", data_type_name(y.type));
  // Another step would turn the order of the bounds around, or have none.
  const bool steps =
      y.type == DataType::kFloat || (float_at(node, kYScale, 0) > 0 && std::isfinite(float_at(node, kYScale, 0)));
  TENON_UNSUPPORTED_IF(!steps, "The output's scale is {}.", float_at(node, kYScale, 0));
  const int32_t zero = w.type == DataType::kInt8 ? 0 : 128;
  for (int64_t o = 0; o < (input_spec(node, kWZero).present() ? elements(kWZero) : 1); ++o) {
    TENON_UNSUPPORTED_IF(byte_at(node, kWZero, o) != zero, "The weights of output {} have the zero point {}.", o,
                         byte_at(node, kWZero, o));
  }
  TENON_TRY_ASSIGN(const Epilogue epilogue, epilogue_of(node));
  TENON_UNSUPPORTED_IF(!is_clamp(epilogue), "The activation is no bound.");
  TENON_UNSUPPORTED_IF(y.type == DataType::kFloat && conv.outputs % 8 != 0 && !keeps_zero(epilogue),
                       "The activation makes other numbers of zeros.");
  return conv;
}

uint8_t counted_x_zero(const KernelNode& node) {
  return static_cast<uint8_t>(byte_at(node, kXZero, 0) + (node.inputs[kX].type == DataType::kInt8 ? 128 : 0));
}

void ByteColumns::set(const KernelNode& node, int64_t output, int32_t sum, size_t at) {
  const Constant* const given = constant_input(node, kBias);
  const bool integers = given != nullptr && given->type == DataType::kInt32;
  const float y_scale = constant_input(node, kYScale) != nullptr ? float_at(node, kYScale, 0) : 1;
  // Sums wrap as int32 does.
  uint32_t term = 0 - static_cast<uint32_t>(counted_x_zero(node)) * static_cast<uint32_t>(sum);
  if (integers) term += static_cast<uint32_t>(given->as<int32_t>()[output]);
  terms[at] = static_cast<int32_t>(term);
  scales[at] = float_at(node, kXScale, 0) * float_at(node, kWScale, output) / y_scale;
  if (given != nullptr && !integers) bias[at] = given->as<float>()[output] / y_scale;
}

Result<ByteBounds> byte_bounds(const KernelNode& node) {
  TENON_TRY_ASSIGN(const Epilogue epilogue, epilogue_of(node));
  ByteBounds bounds;
  bounds.low = clamp_low(epilogue);
  bounds.high = clamp_high(epilogue);
  const DataType type = output_spec(node, 0).type;
  if (type == DataType::kFloat) return bounds;
  const bool is_signed = type == DataType::kInt8;
  bounds.output = is_signed ? Int8Output::kInt8 : Int8Output::kUint8;
  bounds.zero = byte_at(node, kYZero, 0) + (is_signed ? 128 : 0);
  const float y_scale = float_at(node, kYScale, 0);
  const auto byte_of = [&](float bound) {
    return std::clamp(std::nearbyint(bound / y_scale) + static_cast<float>(bounds.zero), 0.0f, 255.0f);
  };
  bounds.low = byte_of(bounds.low);
  bounds.high = byte_of(bounds.high);
  return bounds;
}

}  // namespace tenon::cpu
