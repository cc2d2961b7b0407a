// Cast and CastLike between every type of whole bytes.
#include "ep/cpu/ops/reference_kernel.h"
#include "ops/elementwise.h"

namespace tenon::cpu::ref {

namespace {

using Loop = void (*)(const void* x, void* y, int64_t count);

// The whole part of `value`; the lowest integer for NaN and what does not fit.
template <typename I>
I whole_part(double value) {
  constexpr double kLimit = -static_cast<double>(std::numeric_limits<I>::min());
  return value >= -kLimit && value < kLimit ? static_cast<I>(value) : std::numeric_limits<I>::min();
}

// ONNX leaves floats outside an integer's range undefined. Tenon gives what numpy and ONNX Runtime give on x86-64, on
// every processor: the value becomes an int32 (an int64 for int64 and uint64) whose low bits are taken, and what does
// not fit into that is its lowest value. A large unsigned number is converted less half of its type's range.
template <typename To>
To to_integer(double value) {
  if constexpr (sizeof(To) < 4) {
    return static_cast<To>(whole_part<int32_t>(value));
  } else {
    using Signed = std::make_signed_t<To>;
    constexpr double kHalf = -static_cast<double>(std::numeric_limits<Signed>::min());
    if (std::is_unsigned_v<To> && value >= kHalf) {
      const To half = To{1} << (sizeof(To) * 8 - 1);
      return static_cast<To>(static_cast<To>(whole_part<Signed>(value - kHalf)) ^ half);
    }
    return static_cast<To>(whole_part<Signed>(value));
  }
}

template <typename To, typename From>
To convert(From value) {
  if constexpr (std::is_same_v<To, From>) {
    return value;
  } else if constexpr (std::is_same_v<To, Bool>) {
    return Bool(static_cast<Compute<From>>(value));
  } else if constexpr (is_float<From> && std::is_integral_v<To>) {
    return to_integer<To>(static_cast<double>(static_cast<Compute<From>>(value)));
  } else if constexpr (is_half<To>) {
    return To(static_cast<Compute<From>>(value));
  } else {
    return static_cast<To>(static_cast<Compute<From>>(value));
  }
}

template <typename From, typename To>
void loop(const void* x, void* y, int64_t count) {
  for (int64_t i = 0; i < count; ++i) static_cast<To*>(y)[i] = convert<To>(static_cast<const From*>(x)[i]);
}

Result<RefImpl> make_cast(RefNode& node) {
  TENON_TRY(require_inputs(node, node.node->op_type == "CastLike" ? 2 : 1));
  TENON_TRY(require_output(node, 0, node.inputs[0].shape));
  DataType to = DataType::kUndefined;
  if (node.node->op_type == "CastLike") {
    to = node.inputs[1].type;
  } else {
    TENON_TRY_ASSIGN(to, read_cast_type(*node.node));
  }
  TENON_INVALID_IF(output_spec(node, 0).type != to, "{} makes {}, but its output was planned as {}.",
                   node.node->op_type, data_type_name(to), data_type_name(output_spec(node, 0).type));
  const Loop chosen = select(AllTypes(), node.inputs[0].type, [to]<typename From>() -> Loop {
    return select(AllTypes(), to, []<typename To>() -> Loop { return &loop<From, To>; });
  });
  TENON_UNSUPPORTED_IF(chosen == nullptr, "{} is not computed from {} to {}.", node.node->op_type,
                       data_type_name(node.inputs[0].type), data_type_name(to));
  RefImpl impl;
  impl.elementwise = true;
  impl.run = [chosen, count = node.inputs[0].shape.element_count()](KernelContext& context) -> Status {
    chosen(context.inputs[0], context.outputs[0], count);
    return {};
  };
  return impl;
}

Status match_cast(const KernelNode& node) {
  TENON_TRY(check_types(node, kAllSet, 0));
  const TensorSpec& out = output_spec(node, 0);
  TENON_UNSUPPORTED_IF(out.present() && ((kAllSet >> static_cast<int>(out.type)) & 1) == 0, "{} to {} is not computed.",
                       node.node->op_type, data_type_name(out.type));
  return {};
}

constexpr KernelEntry kRows[] = {
    {"", "Cast", 6, kAnyVersion, "ref", &match_cast, &create_ref<&make_cast>},
    {"", "CastLike", 15, kAnyVersion, "ref", &match_cast, &create_ref<&make_cast>},
};

}  // namespace

std::span<const KernelEntry> ref_cast_rows() { return kRows; }

}  // namespace tenon::cpu::ref
