// QuantizeLinear, DequantizeLinear, DynamicQuantizeLinear and tenon.LookupBytes.
#include "ep/cpu/ops/quantize/elements.h"
#include "ops/attributes.h"
#include "ops/quantize.h"

namespace tenon::cpu::ref {

namespace {

// The number that `type` has nearest to `value`.
double rounded_to(DataType type, double value) {
  if (type == DataType::kFloat16) return static_cast<double>(static_cast<float>(Float16(value)));
  if (type == DataType::kBfloat16) return static_cast<double>(static_cast<float>(BFloat16(value)));
  return static_cast<double>(static_cast<float>(value));
}

// The type of an input as the graph has it: those of less than a byte an element are shown as uint8.
DataType type_of(const RefNode& node, size_t input) {
  const TensorSpec& spec = input_spec(node, input);
  if (!spec.present() || node.graph == nullptr || node.node->input(input) == kNoValue) return spec.type;
  const DataType type = node.graph->value(node.node->inputs[input]).type;
  return has_type(kPackedSet, type) ? type : spec.type;
}

// Scale and zero point of each element of X.
struct Parameters {
  QuantizationDesc scale, zero;
  ReadElement read_scale = nullptr, read_zero = nullptr;  // without a zero point null

  // body(element, scale, zero point) for all `count` elements of X, without a division for each of them.
  template <typename Body>
  void each(const KernelContext& context, int64_t count, Body&& body) const {
    const bool whole = scale.granularity == QuantizationDesc::Granularity::kTensor;
    const bool blocks = scale.granularity == QuantizationDesc::Granularity::kBlock;
    const bool alike = zero.granularity == scale.granularity;
    const int64_t inner = whole ? count : scale.inner, length = whole ? 1 : scale.length;
    const int64_t block = blocks ? scale.block_size : 1;
    for (int64_t element = 0, first = 0; element < count; first = blocks ? first : 0) {
      for (int64_t k = 0; k < length; k += block, first += blocks ? inner : 1) {
        const int64_t rows = std::min(block, length - k);
        for (int64_t row = 0; row < rows; ++row) {
          for (int64_t i = 0; i < inner; ++i, ++element) {
            const int64_t at = blocks ? first + i : first;
            body(element, read_scale(context.inputs[1], at),
                 read_zero ? read_zero(context.inputs[2], alike ? at : zero.parameter_of(element)) : 0);
          }
        }
      }
    }
  }
};

Result<Parameters> read_parameters(const RefNode& node) {
  TENON_TRY(require_inputs(node, 2));
  const Shape& x = node.inputs[0].shape;
  Parameters parameters;
  TENON_TRY_ASSIGN(parameters.scale, read_quantization(*node.node, x, node.inputs[1].shape));
  parameters.read_scale = element_reader(node.inputs[1].type);
  TENON_UNSUPPORTED_IF(parameters.read_scale == nullptr, "{} has a scale of {}.", node.node->op_type,
                       data_type_name(node.inputs[1].type));
  const TensorSpec& zero = input_spec(node, 2);
  if (!zero.present()) return parameters;
  TENON_TRY_ASSIGN(parameters.zero, read_quantization(*node.node, x, zero.shape));
  parameters.read_zero = element_reader(type_of(node, 2));
  TENON_UNSUPPORTED_IF(parameters.read_zero == nullptr, "{} has a zero point of {}.", node.node->op_type,
                       data_type_name(type_of(node, 2)));
  return parameters;
}

Result<RefImpl> make_quantize(RefNode& node) {
  TENON_TRY_ASSIGN(const Parameters parameters, read_parameters(node));
  const ReadElement read = element_reader(node.inputs[0].type);
  const DataType type = node.output_type;
  const bool contrib = node.node->domain == kContribDomain;
  const WriteQuantized write = quantized_writer(type, contrib || Attributes(*node.node).flag("saturate"));
  TENON_UNSUPPORTED_IF(read == nullptr || write == nullptr, "QuantizeLinear does not make {} of {}.",
                       data_type_name(type), data_type_name(node.inputs[0].type));
  const TensorSpec& zero = input_spec(node, 2);
  TENON_INVALID_IF(zero.present() && type_of(node, 2) != type, "QuantizeLinear makes {}, but its zero point is {}.",
                   data_type_name(type), data_type_name(type_of(node, 2)));
  TENON_TRY(require_output(node, 0, node.inputs[0].shape));
  // The quotient has the type of the scale, unless the node states another one.
  // com.microsoft's divides in float32, whatever the types.
  const int64_t stated = contrib ? static_cast<int64_t>(DataType::kFloat) : Attributes(*node.node).integer("precision");
  const DataType precision = stated != 0 ? static_cast<DataType>(stated) : node.inputs[1].type;
  RefImpl impl;
  impl.elementwise = true;
  impl.run = [=, count = node.inputs[0].shape.element_count()](KernelContext& context) -> Status {
    parameters.each(context, count, [&](int64_t i, double scale, double zero) {
      const double x = rounded_to(precision, read(context.inputs[0], i));
      write(rounded_to(precision, x / scale), zero, context.outputs[0], i);
    });
    return {};
  };
  return impl;
}

using WriteFloat = void (*)(float value, void* data, int64_t index);
template <typename T>
void write_float(float value, void* data, int64_t index) {
  static_cast<T*>(data)[index] = T(value);
}

Result<RefImpl> make_dequantize(RefNode& node) {
  TENON_TRY_ASSIGN(const Parameters parameters, read_parameters(node));
  const DataType x = type_of(node, 0), y = output_spec(node, 0).type;
  const ReadElement read = element_reader(x);
  const WriteFloat write =
      select(TypeList<float, Float16, BFloat16>(), y, []<typename T>() -> WriteFloat { return &write_float<T>; });
  TENON_UNSUPPORTED_IF(read == nullptr || write == nullptr, "DequantizeLinear does not make {} of {}.",
                       data_type_name(y), data_type_name(x));
  const TensorSpec& zero = input_spec(node, 2);
  TENON_INVALID_IF(zero.present() && type_of(node, 2) != x, "DequantizeLinear reads {}, but its zero point is {}.",
                   data_type_name(x), data_type_name(type_of(node, 2)));
  TENON_TRY(require_output(node, 0, node.inputs[0].shape));
  RefImpl impl;
  impl.elementwise = true;
  impl.run = [=, count = node.inputs[0].shape.element_count()](KernelContext& context) -> Status {
    parameters.each(context, count, [&](int64_t i, double scale, double zero) {
      // The difference is exact; its product with the scale is one of float32.
      const auto steps = static_cast<float>(read(context.inputs[0], i) - zero);
      write(steps * static_cast<float>(scale), context.outputs[0], i);
    });
    return {};
  };
  return impl;
}

Result<RefImpl> make_dynamic_quantize(RefNode& node) {
  TENON_TRY(require_inputs(node, 1));
  TENON_TRY(require_output(node, 0, node.inputs[0].shape));
  TENON_TRY(require_output(node, 1, Shape{}));
  TENON_TRY(require_output(node, 2, Shape{}));
  RefImpl impl;
  impl.run = [count = node.inputs[0].shape.element_count()](KernelContext& context) -> Status {
    const auto* const x = context.input<float>(0);
    float low = 0, high = 0;
    for (int64_t i = 0; i < count; ++i) {
      // A NaN stays: then no comparison holds any more.
      if (!(x[i] >= low)) low = x[i] < low || x[i] != x[i] ? x[i] : low;
      if (!(x[i] <= high)) high = x[i] > high || x[i] != x[i] ? x[i] : high;
    }
    const DynamicQuantization q = dynamic_quantization(low, high);
    if (context.outputs[0] != nullptr) {
      for (int64_t i = 0; i < count; ++i)
        context.output<uint8_t>(0)[i] = saturated_sum<uint8_t>(x[i] / q.scale, q.zero_point);
    }
    if (context.outputs.size() > 1 && context.outputs[1] != nullptr) *context.output<float>(1) = q.scale;
    if (context.outputs.size() > 2 && context.outputs[2] != nullptr) *context.output<uint8_t>(2) = q.zero_point;
    return {};
  };
  return impl;
}

Result<RefImpl> make_lookup_bytes(RefNode& node) {
  TENON_TRY(require_inputs(node, 2));
  TENON_INVALID_IF(data_type_size(node.inputs[1].type) != 1, "The table of LookupBytes is {} instead of bytes.",
                   data_type_name(node.inputs[1].type));
  TENON_TRY_ASSIGN(const LookupDesc desc, read_lookup(node.inputs[0].shape, node.inputs[1].shape));
  TENON_TRY(require_output(node, 0, node.inputs[0].shape));
  RefImpl impl;
  impl.elementwise = true;
  impl.run = [desc, count = node.inputs[0].shape.element_count()](KernelContext& context) -> Status {
    const auto* const x = context.input<uint8_t>(0);
    for (int64_t i = 0; i < count; ++i)
      context.output<uint8_t>(0)[i] = context.input<uint8_t>(1)[i / desc.inner % desc.tables * 256 + x[i]];
    return {};
  };
  return impl;
}

// Along the last axis, from bytes to bytes.
Result<RefImpl> make_quantized_softmax(RefNode& node) {
  TENON_TRY(require_inputs(node, 2));
  const Shape& shape = node.inputs[0].shape;
  TENON_INVALID_IF(shape.rank() == 0 || !input_spec(node, 3).present(), "QuantizedSoftmax lacks an axis or a scale.");
  TENON_TRY(require_output(node, 0, shape));
  const ReadElement read = element_reader(node.inputs[0].type);
  const WriteQuantized write = quantized_writer(node.output_type);
  TENON_UNSUPPORTED_IF(read == nullptr || write == nullptr, "QuantizedSoftmax does not make {} of {}.",
                       data_type_name(node.output_type), data_type_name(node.inputs[0].type));
  const ReadElement zero = input_spec(node, 4).present() ? element_reader(node.inputs[4].type) : nullptr;
  RefImpl impl;
  impl.run = [=, columns = shape[shape.rank() - 1], count = shape.element_count()](KernelContext& context) -> Status {
    const double step = static_cast<double>(*context.input<float>(1)), y_step = *context.input<float>(3);
    for (int64_t first = 0; first < count; first += columns) {
      double most = read(context.inputs[0], first), sum = 0;
      for (int64_t i = first; i < first + columns; ++i) most = std::max(most, read(context.inputs[0], i));
      for (int64_t i = first; i < first + columns; ++i) sum += std::exp((read(context.inputs[0], i) - most) * step);
      for (int64_t i = first; i < first + columns; ++i) {
        const double y = std::exp((read(context.inputs[0], i) - most) * step) / sum;
        write(y / y_step, zero ? zero(context.inputs[4], 0) : 0, context.outputs[0], i);
      }
    }
    return {};
  };
  return impl;
}

constexpr TypeSet kQuantizes = type_set(TypeList<float, Float16, BFloat16, int32_t>());
constexpr TypeSet kDequantizes = type_set(TypeList<int8_t, uint8_t, int16_t, uint16_t, int32_t>()) | kSmallSet;

// Small types may stand in place of outputs and zero points, too.
Status match_quantize(const KernelNode& node) {
  TENON_TRY(check_types(node, kQuantizes | kSmallSet, 0));
  const DataType x = input_spec(node, 0).type;
  TENON_UNSUPPORTED_IF(!has_type(kQuantizes, x), "QuantizeLinear is not computed on {}.", data_type_name(x));
  return {};
}

constexpr KernelEntry kRows[] = {
    {"", "QuantizeLinear", 10, kAnyVersion, "ref", &match_quantize, &create_ref<&make_quantize>},
    {"com.microsoft", "QuantizeLinear", 1, kAnyVersion, "ref", &match_quantize, &create_ref<&make_quantize>},
    ref_row<kDequantizes, &make_dequantize>("DequantizeLinear", 10),
    ref_row<kDequantizes, &make_dequantize>("DequantizeLinear", 1, kAnyVersion, "com.microsoft"),
    ref_row<kFloat32Set, &make_dynamic_quantize>("DynamicQuantizeLinear", 11),
    ref_row<type_set(TypeList<int8_t, uint8_t>()), &make_lookup_bytes>("LookupBytes", 1, kAnyVersion, "tenon"),
    ref_row<type_set(TypeList<int8_t, uint8_t>()), &make_quantized_softmax>("QuantizedSoftmax", 1, kAnyVersion,
                                                                            "tenon"),
};

}  // namespace

std::span<const KernelEntry> ref_quantize_rows() { return kRows; }

}  // namespace tenon::cpu::ref
