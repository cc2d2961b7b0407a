#include "ep/cpu/ops/reference_access.h"

#include <algorithm>

namespace tenon::cpu::ref {

namespace {

template <typename T>
T store(double value) {
  if constexpr (std::is_integral_v<T>) {
    constexpr auto low = static_cast<double>(std::numeric_limits<T>::min());
    // The largest double that is a T: of 64 bits, T's own maximum is none.
    constexpr double high = sizeof(T) == 8 ? static_cast<double>(std::numeric_limits<T>::max() / 2 + 1) * 2 *
                                                 (1 - std::numeric_limits<double>::epsilon() / 2)
                                           : static_cast<double>(std::numeric_limits<T>::max());
    return std::isnan(value) ? T(0) : static_cast<T>(std::clamp(value, low, high));
  } else {
    return T(value);
  }
}

}  // namespace

ReadNumber number_reader(DataType type) {
  return select(AllTypes(), type, []<typename T>() -> ReadNumber {
    return [](const void* x, int64_t i) { return static_cast<double>(static_cast<const T*>(x)[i]); };
  });
}

WriteNumber number_writer(DataType type) {
  return select(AllTypes(), type, []<typename T>() -> WriteNumber {
    return [](void* y, int64_t i, double value) { static_cast<T*>(y)[i] = store<T>(value); };
  });
}

Result<ReadNumber> input_reader(const KernelNode& node, size_t input) {
  const DataType type = input_spec(node, input).type;
  const ReadNumber reader = number_reader(type);
  TENON_UNSUPPORTED_IF(reader == nullptr, "{} is not computed with input {} of {}.", node.node->op_type, input,
                       data_type_name(type));
  return reader;
}

Result<WriteNumber> output_writer(const KernelNode& node, size_t output) {
  const DataType type = output_spec(node, output).type;
  const WriteNumber writer = number_writer(type);
  TENON_UNSUPPORTED_IF(writer == nullptr, "{} makes no {}.", node.node->op_type, data_type_name(type));
  return writer;
}

Result<std::optional<int64_t>> constant_number(const KernelNode& node, size_t input) {
  const TensorSpec& spec = input_spec(node, input);
  if (!spec.present()) return std::optional<int64_t>();
  TENON_INVALID_IF(spec.shape.element_count() != 1 || (spec.type != DataType::kInt32 && spec.type != DataType::kInt64),
                   "{} has {}{} as input {}, not one integer.", node.node->op_type, data_type_name(spec.type),
                   spec.shape.to_string(), input);
  const ConstantRef value = input < node.constants.size() ? node.constants[input] : nullptr;
  TENON_UNSUPPORTED_IF(value == nullptr, "{} needs the value of input {} before it runs.", node.node->op_type, input);
  return std::optional<int64_t>(spec.type == DataType::kInt32 ? value->as<int32_t>()[0] : value->as<int64_t>()[0]);
}

}  // namespace tenon::cpu::ref
