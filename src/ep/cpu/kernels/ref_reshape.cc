// Operators that keep the elements in their order: Identity, Reshape, Flatten, Squeeze, Unsqueeze,
// BitCast, Dropout.
#include <cstring>
#include <optional>

#include "base/checked.h"
#include "ep/cpu/kernels/ref_kernel.h"

namespace tenon::cpu::ref {

namespace {

// The output's shape from that of X and the integers of the second input (or the attribute).
using ShapeRule = Result<Shape> (*)(const Shape& x, std::span<const int64_t> values, int64_t flag);

Result<Shape> same_shape(const Shape& x, std::span<const int64_t>, int64_t) { return x; }

Result<Shape> reshaped(const Shape& x, std::span<const int64_t> values, int64_t allow_zero) {
  Shape out;
  int unknown = -1;
  TENON_INVALID_IF(values.size() > static_cast<size_t>(Shape::kMaxRank), "Reshape asks for rank {}; the limit is {}.",
                   values.size(), Shape::kMaxRank);
  for (size_t d = 0; d < values.size(); ++d) {
    int64_t dim = values[d];
    if (dim == 0 && allow_zero == 0) {
      TENON_INVALID_IF(static_cast<int>(d) >= x.rank(), "Reshape copies axis {} of {}.", d, x.to_string());
      dim = x[static_cast<int>(d)];
    }
    TENON_INVALID_IF(dim < -1 || (dim == -1 && unknown >= 0), "Reshape asks for dimension {} at axis {}.", dim, d);
    if (dim == -1) {
      unknown = static_cast<int>(d);
      dim = 1;
    }
    out.push_back(dim);
  }
  const std::optional<int64_t> product = checked_product(out.dims());
  TENON_INVALID_IF(!product, "Reshape asks for more elements than {} has.", x.to_string());
  const int64_t known = *product;
  const int64_t count = x.element_count();
  if (unknown >= 0) {
    TENON_INVALID_IF(known == 0 ? count != 0 : count % known != 0, "Reshape cannot spread {} over axis {} of {}.",
                     x.to_string(), unknown, out.to_string());
    out[unknown] = known == 0 ? 0 : count / known;
  }
  TENON_INVALID_IF(out.element_count() != count, "Reshape cannot make {} from {}.", out.to_string(), x.to_string());
  return out;
}

Result<Shape> flattened(const Shape& x, std::span<const int64_t>, int64_t axis) {
  TENON_INVALID_IF(axis < -x.rank() || axis > x.rank(), "Flatten has axis {} for {}.", axis, x.to_string());
  if (axis < 0) axis += x.rank();
  Shape out{1, 1};
  for (int d = 0; d < x.rank(); ++d) out[d < axis ? 0 : 1] *= x[d];
  return out;
}

Result<Shape> squeezed(const Shape& x, std::span<const int64_t> axes, int64_t) {
  uint32_t drop = 0;
  for (int64_t value : axes) {
    TENON_TRY_ASSIGN(const int axis, resolve_axis(value, x.rank()));
    TENON_INVALID_IF(x[axis] != 1, "Squeeze drops axis {} of {}.", axis, x.to_string());
    drop |= uint32_t{1} << axis;
  }
  Shape out;
  for (int d = 0; d < x.rank(); ++d) {
    const bool dropped = axes.empty() ? x[d] == 1 : ((drop >> d) & 1) != 0;
    if (!dropped) out.push_back(x[d]);
  }
  return out;
}

Result<Shape> unsqueezed(const Shape& x, std::span<const int64_t> axes, int64_t) {
  const int rank = x.rank() + static_cast<int>(axes.size());
  TENON_INVALID_IF(rank > Shape::kMaxRank, "Unsqueeze makes rank {}; the limit is {}.", rank, Shape::kMaxRank);
  uint32_t added = 0;
  for (int64_t value : axes) {
    TENON_TRY_ASSIGN(const int axis, resolve_axis(value, rank));
    TENON_INVALID_IF(((added >> axis) & 1) != 0, "Unsqueeze adds axis {} twice.", axis);
    added |= uint32_t{1} << axis;
  }
  Shape out;
  int from = 0;
  for (int d = 0; d < rank; ++d) out.push_back(((added >> d) & 1) != 0 ? 1 : x[from++]);
  return out;
}

template <ShapeRule rule>
Result<RefImpl> make(RefNode& node) {
  TENON_TRY(require_inputs(node, 1));
  const TensorSpec& x = node.inputs[0];
  const TensorSpec& out = output_spec(node, 0);
  const bool fits =
      node.node->op_type == "BitCast" ? data_type_bits(out.type) == data_type_bits(x.type) : out.type == x.type;
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
  TENON_TRY_ASSIGN(const ShortVector attribute, short_vector(node.node->ints("axes")));
  const int64_t flag =
      node.node->op_type == "Flatten" ? node.node->int_or("axis", 1) : node.node->int_or("allowzero", 0);
  const bool has_values = rule != &same_shape && rule != &flattened;
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

// Inference only: the data passes, the mask is all true.
Result<RefImpl> make_dropout(RefNode& node) {
  const TensorSpec& training = input_spec(node, 2);
  const TensorSpec& mask = output_spec(node, 1);
  TENON_TRY_ASSIGN(RefImpl pass, make<&same_shape>(node));
  TENON_TRY(require_output(node, 1, node.inputs[0].shape));
  RefImpl impl;
  impl.run = [pass = std::move(pass.run), has_training = training.present(), mask_bytes = mask.size_bytes(),
              one = mask.type == DataType::kBool](KernelContext& context) -> Status {
    TENON_UNSUPPORTED_IF(has_training && *context.input<uint8_t>(2) != 0, "Dropout is not computed for training.");
    if (context.output<uint8_t>(1) != nullptr) {
      TENON_UNSUPPORTED_IF(!one, "Dropout's mask is computed as bool only.");
      std::memset(context.output<uint8_t>(1), 1, mask_bytes);
    }
    return pass(context);
  };
  return impl;
}

constexpr KernelEntry kRows[] = {
    ref_row<~TypeSet{0}, &make<&same_shape>>("Identity", 1),  ref_row<~TypeSet{0}, &make<&reshaped>>("Reshape", 5),
    ref_row<~TypeSet{0}, &make<&flattened>>("Flatten", 1),    ref_row<~TypeSet{0}, &make<&squeezed>>("Squeeze", 1),
    ref_row<~TypeSet{0}, &make<&unsqueezed>>("Unsqueeze", 1), ref_row<~TypeSet{0}, &make<&same_shape>>("BitCast", 26),
    ref_row<kFloatSet, &make_dropout>("Dropout", 7),
};

}  // namespace

std::span<const KernelEntry> ref_reshape_rows() { return kRows; }

}  // namespace tenon::cpu::ref
