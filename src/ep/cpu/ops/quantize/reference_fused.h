// The epilogue of tenon.QuantizedMatMul and tenon.QuantizedConv (docs/reference/internal-operators.md).
#pragma once

#include "ep/cpu/ops/quantize/elements.h"
#include "ops/activation_formula.h"
#include "ops/input_shapes.h"
#include "ops/unary.h"

namespace tenon::cpu::ref {

struct FusedOutput {
  size_t bias = kNoInput, residual = kNoInput;
  size_t middle_scale = kNoInput, middle_zero = kNoInput, middle_bias = kNoInput;
  size_t y_scale = kNoInput, y_zero = kNoInput, table = kNoInput;
  float factor = 1;
  Epilogue epilogue;
  DataType middle_type = DataType::kUint8, y_type = DataType::kFloat;

  // x is the scaled sum of output `index`, in column or channel `column`.
  void store(const KernelContext& context, double x, int64_t column, int64_t index) const {
    const auto number = [&](size_t input, int64_t at) {
      const auto* const values = context.input<float>(input);
      return values != nullptr ? static_cast<double>(values[at]) : 0.0;
    };
    if (bias != kNoInput) x += number(bias, column);
    if (middle_scale != kNoInput) {
      const double scale = number(middle_scale, 0);
      const double zero = middle_zero != kNoInput ? element_reader(middle_type)(context.inputs[middle_zero], 0) : 0;
      const double low = middle_type == DataType::kInt8 ? -128 : 0;
      const double q = std::clamp(std::nearbyint(x / scale) + zero, low, low + 255);
      x = ((q - zero) * scale + number(middle_bias, column)) * static_cast<double>(factor);
    }
    x = evaluate(epilogue, x, number(residual, index));
    if (y_scale == kNoInput) {
      static_cast<float*>(context.outputs[0])[index] = static_cast<float>(x);
      return;
    }
    const double zero = y_zero != kNoInput ? element_reader(y_type)(context.inputs[y_zero], 0) : 0;
    quantized_writer(y_type)(x / number(y_scale, 0), zero, context.outputs[0], index);
    if (table == kNoInput) return;
    auto& byte = static_cast<uint8_t*>(context.outputs[0])[index];
    byte = context.input<uint8_t>(table)[byte];
  }
};

// Input `input` if the node has it.
inline size_t given_input(const RefNode& node, size_t input) {
  return input_spec(node, input).present() ? input : kNoInput;
}

}  // namespace tenon::cpu::ref
