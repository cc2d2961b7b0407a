// QuantizeLinear and DequantizeLinear on the device against what ONNX says, computed here: the CPU EP has neither.
#include <algorithm>
#include <limits>

#include "operators_testing.h"

namespace tenon::cuda {
namespace {

struct Range {
  DataType type;
  int64_t lowest, highest;
};
constexpr Range kRanges[] = {{DataType::kUint8, 0, 255},
                             {DataType::kInt8, -128, 127},
                             {DataType::kUint16, 0, 65535},
                             {DataType::kInt16, -32768, 32767}};

class Quantization : public Operators {
 protected:
  static int64_t integer_at(const Constant& constant, size_t i) {
    switch (constant.type) {
      case DataType::kUint8:
        return constant.as<uint8_t>()[i];
      case DataType::kInt8:
        return constant.as<int8_t>()[i];
      case DataType::kUint16:
        return constant.as<uint16_t>()[i];
      case DataType::kInt16:
        return constant.as<int16_t>()[i];
      default:
        return constant.as<int32_t>()[i];
    }
  }
  static ConstantRef integers(DataType type, const Shape& shape, const std::vector<int64_t>& values) {
    std::byte* data = nullptr;
    ConstantRef made = *make_constant(type, shape, &data);
    for (size_t i = 0; i < values.size(); ++i) {
      // Little-endian: the low bytes are the number in the narrower type.
      std::memcpy(data + i * data_type_size(type), &values[i], data_type_size(type));
    }
    return made;
  }
  static ConstantRef floats(const Shape& shape, const std::vector<float>& values, DataType type = DataType::kFloat) {
    std::byte* data = nullptr;
    ConstantRef made = *make_constant(type, shape, &data);
    store_floats(values, type, data);
    return made;
  }

  // Scales and zero points have `scales` numbers: one, or one for each place of dimension `axis`.
  void check_both(const Shape& shape, int axis, const Range& range, DataType half, bool constant, bool zero_point) {
    if (!case_is_in_part()) return;
    SCOPED_TRACE(format("{} axis {} of {} {}", data_type_name(range.type), axis, shape.to_string(),
                        half == DataType::kUndefined ? "" : data_type_name(half)));
    const DataType floating = half == DataType::kUndefined ? DataType::kFloat : half;
    const auto scales = static_cast<size_t>(axis < 0 ? 1 : shape[axis]),
               count = static_cast<size_t>(shape.element_count());
    int64_t inner = 1;
    for (int i = axis + 1; axis >= 0 && i < shape.rank(); ++i) inner *= shape[i];
    const Shape scale_shape = axis < 0 ? Shape{} : Shape{shape[axis]};
    std::vector<float> scale(scales), x = random_floats(count, 3, -8, 8);
    std::vector<int64_t> zero(scales);
    const float step = range.highest > 255 ? 0x1p-12F : 0x1p-5F;
    for (size_t i = 0; i < scales; ++i) {
      scale[i] = step * static_cast<float>(1 + i % 3);
      zero[i] = zero_point
                    ? std::clamp<int64_t>(range.lowest + 100 + static_cast<int64_t>(i), range.lowest, range.highest)
                    : 0;
    }
    // Ties, which go to even, and what saturates.
    for (size_t i = 0; i < count && i < 8; ++i) x[i] = (static_cast<float>(i) - 3.5F) * scale[0];
    if (count > 12) x[8] = 1e30F, x[9] = -1e30F, x[10] = INFINITY, x[11] = -INFINITY;
    const ConstantRef xs = floats(shape, x, floating), scale_of = floats(scale_shape, scale, floating);
    x = floats_of(*xs);
    scale = floats_of(*scale_of);
    std::vector<int64_t> quantized(count);
    std::vector<float> back(count);
    for (size_t i = 0; i < count; ++i) {
      const size_t at = axis < 0 ? 0 : i / static_cast<size_t>(inner) % scales;
      const float rounded = std::nearbyint(x[i] / scale[at]) + static_cast<float>(zero[at]);
      quantized[i] = static_cast<int64_t>(
          std::clamp(rounded, static_cast<float>(range.lowest), static_cast<float>(range.highest)));
      back[i] = static_cast<float>(quantized[i] - zero[at]) * scale[at];
    }
    const ConstantRef q = integers(range.type, shape, quantized), zeros = integers(range.type, scale_shape, zero);
    const Operand parameter{.shape = scale_shape, .constant = constant},
        zero_operand{.shape = scale_shape, .type = range.type, .constant = constant, .absent = !zero_point};
    const auto attributes = [&](Node& node) {
      if (axis >= 0) node.set_int("axis", axis);
      if (!zero_point && node.op_type == "QuantizeLinear")
        node.set_int("output_dtype", static_cast<int64_t>(range.type));
    };
    run({"QuantizeLinear", {{.shape = shape}, parameter, zero_operand}, attributes, 21}, {xs, scale_of, zeros}, {q},
        false, 0);
    run({"DequantizeLinear", {{.shape = shape, .type = range.type}, parameter, zero_operand}, attributes, 21},
        {q, scale_of, zeros}, {floats(shape, back)}, false, half == DataType::kUndefined ? 1e-7 : 5e-3);
  }
};

TEST_F(Quantization, EveryTypeByTensorAndByAxis) {
  for (const Range& range : kRanges)
    for (const DataType half : {DataType::kUndefined, DataType::kFloat16})
      for (const bool constant : {true, false})
        for (const bool zero_point : {true, false}) {
          check_both(Shape{3, 5, 7}, -1, range, half, constant, zero_point);
          check_both(Shape{3, 5, 7}, 1, range, half, constant, zero_point);
          check_both(Shape{64, 16}, 0, range, half, constant, zero_point);
        }
}

TEST_F(Quantization, ScalarsVectorsAndNothing) {
  check_both(Shape{}, -1, kRanges[0], DataType::kUndefined, true, true);
  check_both(Shape{1000}, -1, kRanges[1], DataType::kUndefined, true, true);
  check_both(Shape{40}, 0, kRanges[1], DataType::kUndefined, true, true);
  check_both(Shape{4, 0}, -1, kRanges[0], DataType::kUndefined, true, true);
}

// A scale of zero: what is divided by it is infinite or no number, and still a byte.
TEST_F(Quantization, AScaleOfZeroSaturates) {
  const Case test{"QuantizeLinear",
                  {{.shape = Shape{2}}, {.shape = Shape{}}, {.shape = Shape{}, .type = DataType::kUint8}},
                  nullptr,
                  13};
  run(test, {floats(Shape{2}, {1, -1}), floats(Shape{}, {0}), integers(DataType::kUint8, Shape{}, {3})},
      {integers(DataType::kUint8, Shape{2}, {255, 0})}, false, 0);
}

TEST_F(Quantization, BiasesAreDequantizedFrom32Bits) {
  run({"DequantizeLinear",
       {{.shape = Shape{3}, .type = DataType::kInt32}, {.shape = Shape{3}, .constant = true}},
       [](Node& node) { node.set_int("axis", 0); },
       13},
      {integers(DataType::kInt32, Shape{3}, {1000, -7, 1 << 20}), floats(Shape{3}, {0.5F, 2, 0.25F})},
      {floats(Shape{3}, {500, -14, 262144})}, false, 0);
}

}  // namespace
}  // namespace tenon::cuda
