// Operators that keep the elements in their order: Identity, Reshape, Flatten, Squeeze, Unsqueeze,
// BitCast, Dropout.
#include <cstring>

#include "ep/cpu/ops/reference_kernel.h"
#include "ep/cpu/ops/small_types.h"
#include "ops/reshape.h"

namespace tenon::cpu::ref {

namespace {

// The output's shape from that of X and the integers of the second input (or the attribute).
using ShapeRule = Result<Shape> (*)(const Shape& x, std::span<const int64_t> values, int64_t flag);

Result<Shape> same_shape(const Shape& x, std::span<const int64_t>, int64_t) { return x; }

Result<Shape> reshape_rule(const Shape& x, std::span<const int64_t> target, int64_t allow_zero) {
  return reshaped(x, target, allow_zero != 0);
}
Result<Shape> flatten_rule(const Shape& x, std::span<const int64_t>, int64_t axis) {
  return flattened(x, static_cast<int>(axis));
}
Result<Shape> squeeze_rule(const Shape& x, std::span<const int64_t> axes, int64_t) { return squeezed(x, axes); }
Result<Shape> unsqueeze_rule(const Shape& x, std::span<const int64_t> axes, int64_t) { return unsqueezed(x, axes); }

template <ShapeRule rule>
Result<RefImpl> make(RefNode& node) {
  TENON_TRY(require_inputs(node, 1));
  const TensorSpec& x = node.inputs[0];
  const TensorSpec& out = output_spec(node, 0);
  const bool fits = node.node->op_type == "BitCast" ? data_type_bits(out.type) == data_type_bits(x.type) &&
                                                          !holds_addresses(x.type) && !holds_addresses(out.type)
                                                    : out.type == x.type;
  TENON_INVALID_IF(!out.present() || !fits, "{} has {} in and {} out.", node.node->op_type, data_type_name(x.type),
                   data_type_name(out.type));
  const size_t bytes = x.size_bytes();
  RefImpl impl;
  if (!out.dynamic) {
    TENON_INVALID_IF(out.size_bytes() != bytes, "{} cannot make {} from {}.", node.node->op_type, out.shape.to_string(),
                     x.shape.to_string());
    impl.run = [bytes](KernelContext& context) -> Status {
      if (bytes > 0 && context.inputs[0] != context.outputs[0]) {
        std::memcpy(context.outputs[0], context.inputs[0], bytes);
      }
      return {};
    };
    return impl;
  }
  ShortVector attribute;
  int64_t flag = 0;
  if constexpr (rule == &flatten_rule) {
    TENON_TRY_ASSIGN(flag, read_flatten_axis(*node.node, x.shape.rank()));
  } else if constexpr (rule == &reshape_rule) {
    flag = read_allow_zero(*node.node) ? 1 : 0;
  } else if constexpr (rule == &squeeze_rule || rule == &unsqueeze_rule) {
    TENON_TRY_ASSIGN(attribute, short_vector(squeeze_axes_attribute(*node.node)));
  }
  const bool has_values = rule != &same_shape && rule != &flatten_rule;
  impl.run = [x, out, bytes, attribute, flag,
              values_spec = has_values ? input_spec(node, 1) : TensorSpec()](KernelContext& context) -> Status {
    ShortVector values = attribute;
    if (values_spec.present()) {
      TENON_TRY_ASSIGN(values, read_ints(context, 1, values_spec));
    }
    TENON_TRY_ASSIGN(const Shape shape, rule(x.shape, values.span(), flag));
    TENON_TRY_ASSIGN(void* const y, open_output(context, out, 0, shape));
    if (bytes > 0) std::memcpy(y, context.inputs[0], bytes);
    return {};
  };
  return impl;
}

// Inference only: the data passes. The mask is all true from version 12 on; before, the specification leaves it open,
// and it is all zero as in ONNX Runtime (float before version 10).
Result<RefImpl> make_dropout(RefNode& node) {
  const TensorSpec& training = input_spec(node, 2);
  const TensorSpec& mask = output_spec(node, 1);
  TENON_TRY_ASSIGN(RefImpl pass, make<&same_shape>(node));
  TENON_TRY(require_output(node, 1, node.inputs[0].shape));
  RefImpl impl;
  impl.run = [pass = std::move(pass.run), has_training = training.present(), mask_bytes = mask.size_bytes(),
              fill = node.node->since_version >= 12 ? 1 : 0](KernelContext& context) -> Status {
    TENON_UNSUPPORTED_IF(has_training && *context.input<uint8_t>(2) != 0, "Dropout is not computed for training.");
    if (context.output<uint8_t>(1) != nullptr) std::memset(context.output<uint8_t>(1), fill, mask_bytes);
    return pass(context);
  };
  return impl;
}

constexpr KernelEntry kRows[] = {
    packed_ref_row<~TypeSet{0}, &make<&same_shape>>("Identity", 1),
    packed_ref_row<~TypeSet{0}, &make<&reshape_rule>>("Reshape", 5),
    packed_ref_row<~TypeSet{0}, &make<&flatten_rule>>("Flatten", 1),
    packed_ref_row<~TypeSet{0}, &make<&squeeze_rule>>("Squeeze", 1),
    packed_ref_row<~TypeSet{0}, &make<&unsqueeze_rule>>("Unsqueeze", 1),
    packed_ref_row<~TypeSet{0}, &make<&same_shape>>("BitCast", 26),
    ref_row<kFloatSet | kFloat8Set, &make_dropout>("Dropout", 7),
};

}  // namespace

std::span<const KernelEntry> ref_reshape_rows() { return kRows; }

}  // namespace tenon::cpu::ref
