#include "ep/cuda/ops/elementwise/lower.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "base/format.h"
#include "ep/cuda/compute/kernel_template.h"
#include "ep/cuda/compute/loops.h"
#include "ep/cuda/compute/quantize.h"
#include "ops/elementwise.h"
#include "ops/gather.h"
#include "ops/norm.h"
#include "ops/pad.h"
#include "ops/quantize.h"
#include "ops/slice.h"
#include "ops/transpose.h"

namespace tenon::cuda {

namespace {

// `expression` serves floats; `integers` (null: none) whole numbers. The result is a boolean for comparisons.
struct Row {
  std::string_view op_type;
  const char* expression;
  const char* integers;
};
constexpr std::array kRows = {
    Row{"Add", "$0 + $1", "$0 + $1"},
    Row{"Sub", "$0 - $1", "$0 - $1"},
    Row{"Mul", "$0 * $1", "$0 * $1"},
    Row{"Div", "divide($0, $1)", "divide($0, $1)"},
    Row{"Pow", "power($0, $1)", "power($0, $1)"},
    Row{"Equal", "$0 == $1", "$0 == $1"},
    Row{"Less", "$0 < $1", "$0 < $1"},
    Row{"LessOrEqual", "$0 <= $1", "$0 <= $1"},
    Row{"Greater", "$0 > $1", "$0 > $1"},
    Row{"GreaterOrEqual", "$0 >= $1", "$0 >= $1"},
    Row{"And", nullptr, "$0 && $1"},
    Row{"Or", nullptr, "$0 || $1"},
    Row{"Xor", nullptr, "$0 != $1"},
    Row{"Not", nullptr, "!$0"},
    Row{"Where", "$0 ? $1 : $2", "$0 ? $1 : $2"},
    Row{"BitwiseAnd", nullptr, "$0 & $1"},
    Row{"BitwiseOr", nullptr, "$0 | $1"},
    Row{"BitwiseXor", nullptr, "$0 ^ $1"},
    Row{"BitwiseNot", nullptr, "~$0"},
    Row{"PRelu", "$0 < 0 ? $0 * $1 : $0", nullptr},
    Row{"IsNaN", "$0 != $0", nullptr},
    Row{"Mod", "remainder_of($0, $1)", "python_mod($0, $1)"},
};

// Handled by code below: their expression depends on attributes or on how many inputs there are. The functions of one
// number are those of ops/activation_list.h.
constexpr auto kOthers = std::to_array<std::string_view>({
    "BatchNormalization",
    "BitShift",
    "Cast",
    "CastLike",
    "DequantizeLinear",
    "Expand",
    "Gather",
    "IsInf",
    "Max",
    "Mean",
    "Min",
    "Pad",
    "QuantizeLinear",
    "Slice",
    "Sum",
    "Transpose",
});

const Row* find_row(std::string_view op_type) {
  const auto found = std::find_if(kRows.begin(), kRows.end(), [&](const Row& row) { return row.op_type == op_type; });
  return found != kRows.end() ? &*found : nullptr;
}

bool is_float(DataType type) {
  return type == DataType::kFloat || type == DataType::kFloat16 || type == DataType::kBfloat16 ||
         type == DataType::kDouble;
}

// The largest number of a type of floats, which a Clip without a bound keeps to.
std::string largest_number(DataType type) {
  switch (type) {
    case DataType::kFloat16:
      return "65504.0";
    case DataType::kBfloat16:
      return "3.38953139e+38";
    case DataType::kDouble:
      return "1.7976931348623157e+308";
    default:
      return "3.4028234663852886e+38";
  }
}

// A float as a whole number of `type`. Types of 8 and 16 bits have the low bits of an int.
std::string whole_part(DataType type) {
  switch (type) {
    case DataType::kInt64:
      return "long_of($0)";
    case DataType::kUint64:
      return "unsigned_long_of($0)";
    case DataType::kUint32:
      return "unsigned_of($0)";
    default:
      return "int_of($0)";
  }
}

// Strides of an operand over the dimensions of the output, 0 where it broadcasts.
std::vector<int64_t> broadcast_strides(const Shape& from, const std::vector<int64_t>& strides, const Shape& to) {
  std::vector<int64_t> result(to.rank(), 0);
  const int shift = to.rank() - from.rank();
  for (int i = 0; i < from.rank(); ++i)
    if (from[i] != 1) result[i + shift] = strides[i];
  return result;
}

// Whether each element of `to` has one of `from`.
bool broadcasts(const Shape& from, const Shape& to) {
  const int shift = to.rank() - from.rank();
  for (int i = 0; i < from.rank(); ++i)
    if (i + shift < 0 || (from[i] != 1 && from[i] != to[i + shift])) return false;
  return true;
}

// Whether elements that have these strides lie as a tensor of this layout. Of a dimension of one element the stride is
// free.
bool lies_as(const Shape& shape, const std::vector<int64_t>& strides, DeviceLayout layout) {
  const std::vector<int64_t> wanted = DeviceTensor{.shape = shape, .layout = layout}.strides();
  for (int d = 0; d < shape.rank(); ++d)
    if (shape[d] != 1 && strides[d] != wanted[d]) return false;
  return true;
}

// Builds one kernel from the root node down.
class Chain {
 public:
  Chain(Lowering& to, const Node& root) : to_(to), root_(root), shape_(to.value(root.outputs[0]).shape()) {}

  Status build() {
    TENON_TRY_ASSIGN(const int result, visit(root_));
    const DataType type = to_.type_of(root_.outputs[0]);
    if (result >= 0) kernel_.steps.push_back({.type = type, .expression = "$0", .arguments = {result}});
    // Where an operand of the whole shape has its channels last, so has the result.
    DeviceLayout layout = DeviceLayout::kPlain;
    if (channels_last_ && shape_.rank() >= 3) layout = DeviceLayout::kChannelsLast;
    TENON_TRY_ASSIGN(const TensorId out, to_.make(root_.outputs[0], layout));
    const DeviceTensor& tensor = to_.program().tensor(out);
    kernel_.dims.assign(shape_.begin(), shape_.end());
    kernel_.type = type;
    kernel_.strides = tensor.strides();
    std::string what;
    for (const std::string& name : names_) what += (what.empty() ? "" : " ") + name;
    if (shape_.element_count() == 0) return Status();
    return to_.add_generated(root_, what, kernel_, leaves_, indices_, out);
  }

 private:
  Result<int> step(DataType type, std::string expression, std::vector<int> arguments) {
    kernel_.steps.push_back({.type = type, .expression = std::move(expression), .arguments = std::move(arguments)});
    return ~static_cast<int>(kernel_.steps.size() - 1);
  }

  Result<int> leaf(TensorId tensor, GeneratedLeaf leaf) {
    leaves_.push_back(tensor);
    kernel_.leaves.push_back(std::move(leaf));
    return static_cast<int>(leaves_.size() - 1);
  }

  // An operand as it is read by an element of the chain.
  Result<int> operand(ValueId id) {
    if (const Node* producer = to_.joined_producer(id)) return visit(*producer);
    if (const Lowering::Part* const part = to_.part(id)) return part_operand(id, *part);
    TENON_TRY_ASSIGN(const TensorId tensor, to_.any(id));
    const DeviceTensor& read = to_.program().tensor(tensor);
    // Shapes of operands whose ranks nobody knew, such as a Clip's bounds, are first seen here.
    TENON_INVALID_IF(!broadcasts(read.shape, shape_), "{} reads \"{}\" of shape {}, which does not broadcast to {}.",
                     to_.label(root_), to_.value(id).name, read.shape.to_string(), shape_.to_string());
    if (read.layout == DeviceLayout::kChannelsLast && read.shape == shape_) channels_last_ = true;
    return leaf(tensor, {.type = read.type, .strides = broadcast_strides(read.shape, read.strides(), shape_)});
  }

  // An operand where it lies within another tensor.
  Result<int> part_operand(ValueId id, const Lowering::Part& part) {
    const Shape& shape = to_.value(id).shape();
    const DeviceTensor& whole = to_.program().tensor(part.from);
    TENON_INVALID_IF(!broadcasts(shape, shape_), "{} reads \"{}\" of shape {}, which does not broadcast to {}.",
                     to_.label(root_), to_.value(id).name, shape.to_string(), shape_.to_string());
    if (whole.layout == DeviceLayout::kChannelsLast && shape == shape_) channels_last_ = true;
    return leaf(part.from,
                {.type = whole.type, .strides = broadcast_strides(shape, part.strides, shape_), .offset = part.offset});
  }

  // As float constants read by channel: the parameters of a BatchNormalization.
  Result<int> channel_operand(ValueId id) {
    TENON_TRY_ASSIGN(const TensorId tensor, to_.any(id));
    std::vector<int64_t> strides(shape_.rank(), 0);
    if (strides.size() > 1) strides[1] = 1;
    return leaf(tensor, {.type = to_.program().tensor(tensor).type, .strides = std::move(strides)});
  }

  Result<int> visit(const Node& node) {
    const DataType type = to_.type_of(node.outputs[0]);
    if (is_unary(node) && node.op_type != "Clip") return function(node, type);
    names_.push_back(node.op_type);
    if (node.op_type == "Transpose") return transpose(node);
    if (node.op_type == "Expand") return operand(node.inputs[0]);
    if (node.op_type == "Slice") return slice(node);
    if (node.op_type == "Gather") return gather(node);
    if (node.op_type == "Pad") return pad(node);
    if (node.op_type == "BatchNormalization") return batch_norm(node);
    if (node.op_type == "QuantizeLinear" || node.op_type == "DequantizeLinear") return quantize(node, type);
    const DataType input_type = to_.type_of(node.inputs[0] != kNoValue ? node.inputs[0] : node.outputs[0]);
    if (node.op_type == "Clip") return clip(node, type);
    if (node.op_type == "Cast" || node.op_type == "CastLike") {
      TENON_TRY_ASSIGN(const int x, operand(node.inputs[0]));
      std::string text = type == DataType::kBool                   ? std::string("$0 != 0")
                         : is_float(input_type) && !is_float(type) ? whole_part(type)
                                                                   : format("({})$0", compute_type(type));
      // A cast to 16 bits is meant to round, and above all to make infinities of large numbers.
      if (to_.options().half == DataType::kUndefined && type == DataType::kFloat16)
        text = "from_half(to_half(" + text + "))";
      if (to_.options().half == DataType::kUndefined && type == DataType::kBfloat16)
        text = "from_bfloat(to_bfloat(" + text + "))";
      return step(type, std::move(text), {x});
    }
    if (node.op_type == "Min" || node.op_type == "Max" || node.op_type == "Sum" || node.op_type == "Mean")
      return variadic(node, type);
    std::vector<int> arguments;
    for (ValueId id : node.inputs) {
      TENON_UNSUPPORTED_IF(id == kNoValue, "{} lacks an input.", to_.label(node));
      TENON_TRY_ASSIGN(const int argument, operand(id));
      arguments.push_back(argument);
    }
    TENON_TRY_ASSIGN(std::string expression, expression_of(node, node.op_type == "Where" ? type : input_type));
    return step(type, std::move(expression), std::move(arguments));
  }

  // A function of one number.
  Result<int> function(const Node& node, DataType type) {
    TENON_TRY_ASSIGN(const UnaryDesc unary, read_unary(node));
    names_.push_back(node.domain == "tenon" ? std::string(row_of(unary.function).text) : node.op_type);
    const bool of_integers = unary.function == Unary::kAbs || unary.function == Unary::kNeg ||
                             unary.function == Unary::kRelu || unary.function == Unary::kSign;
    TENON_UNSUPPORTED_IF(!is_float(type) && !of_integers, "{} computes with {}.", to_.label(node),
                         data_type_name(type));
    TENON_TRY_ASSIGN(const int x, operand(node.inputs[0]));
    return step(type, unary_expression(unary, "$0"), {x});
  }

  // A scale or a zero point: one number, or one for each index of a dimension.
  Result<int> quantization_operand(const Node& node, ValueId id) {
    TENON_TRY_ASSIGN(const TensorId tensor, to_.plain(id));
    const DeviceTensor read = to_.program().tensor(tensor);
    TENON_TRY_ASSIGN(const QuantizationDesc desc, read_quantization(node, shape_, read.shape));
    TENON_UNSUPPORTED_IF(desc.granularity == QuantizationDesc::Granularity::kBlock, "{} has a scale for each block.",
                         to_.label(node));
    std::vector<int64_t> strides(shape_.rank(), 0);
    if (desc.axis >= 0) strides[desc.axis] = 1;
    return leaf(tensor, {.type = read.type, .strides = std::move(strides)});
  }

  Result<int> quantize(const Node& node, DataType type) {
    TENON_INVALID_IF(node.inputs.size() < 2, "{} lacks its scale.", to_.label(node));
    TENON_TRY_ASSIGN(const int x, operand(node.inputs[0]));
    TENON_TRY_ASSIGN(const int scale, quantization_operand(node, node.inputs[1]));
    std::vector<int> arguments = {x, scale};
    const bool zero_point = node.input(2) != kNoValue;
    if (zero_point) {
      TENON_TRY_ASSIGN(const int zero, quantization_operand(node, node.inputs[2]));
      arguments.push_back(zero);
    }
    if (node.op_type == "DequantizeLinear") {
      TENON_UNSUPPORTED_IF(!is_float(type), "{} makes {}.", to_.label(node), data_type_name(type));
      return step(type, dequantize_expression(to_.value(node.inputs[0]).type, zero_point), std::move(arguments));
    }
    TENON_TRY_ASSIGN(std::string expression, quantize_expression(type, zero_point));
    return step(type, std::move(expression), std::move(arguments));
  }

  Result<std::string> expression_of(const Node& node, DataType type) {
    if (node.op_type == "IsInf" && is_float(type)) {
      const auto [negative, positive] = read_is_inf(node);
      if (negative && positive) return std::string("abs_of($0) == infinity_()");
      return std::string(positive ? "$0 == infinity_()" : negative ? "$0 == -infinity_()" : "false");
    }
    if (node.op_type == "Mod" && is_float(type) && !read_mod(node).truncated)
      return std::string("python_mod(remainder_of($0, $1), $1)");
    if (node.op_type == "BitShift" && !is_float(type)) {
      // By its width or more nothing is left, or only the sign.
      const auto bits = static_cast<int>(data_type_size(type)) * 8;
      TENON_TRY_ASSIGN(const BitShiftDesc shift, read_bit_shift(node));
      if (shift.left) return format("$1 < 0 || $1 >= {} ? 0 : $0 << $1", bits);
      return format("$1 < 0 || $1 >= {} ? ($0 < 0 ? -1 : 0) : $0 >> $1", bits);
    }
    if (node.op_type == "Mod" && !is_float(type) && read_mod(node).truncated)
      return std::string("$1 == 0 ? 0 : $0 % $1");
    const Row* row = find_row(node.op_type);
    const char* expression = row == nullptr ? nullptr : is_float(type) ? row->expression : row->integers;
    TENON_UNSUPPORTED_IF(expression == nullptr, "{} computes with {}.", to_.label(node), data_type_name(type));
    return std::string(expression);
  }

  Result<int> clip(const Node& node, DataType type) {
    TENON_TRY_ASSIGN(int x, operand(node.inputs[0]));
    if (const ClipDesc clip = read_clip(node); !clip.bounds_are_inputs)
      return step(type, unary_expression({Unary::kClip, clip.low, clip.high}, "$0"), {x});
    for (size_t i = 1; i <= 2; ++i) {
      const char* const order = i == 1 ? "<" : ">";
      if (node.input(i) != kNoValue) {
        TENON_TRY_ASSIGN(const int bound, operand(node.inputs[i]));
        TENON_TRY_ASSIGN(x, step(type, format("$0 {} $1 ? $1 : $0", order), {x, bound}));
      } else if (is_float(type)) {
        const std::string bound = format("num($0, {}{})", i == 1 ? "-" : "", largest_number(type));
        TENON_TRY_ASSIGN(x, step(type, format("$0 {0} {1} ? {1} : $0", order, bound), {x}));
      }
    }
    return x;
  }

  Result<int> variadic(const Node& node, DataType type) {
    TENON_TRY_ASSIGN(int sum, operand(node.inputs[0]));
    const std::string expression = node.op_type == "Min"   ? "min_of($0, $1)"
                                   : node.op_type == "Max" ? "max_of($0, $1)"
                                                           : "$0 + $1";
    for (size_t i = 1; i < node.inputs.size(); ++i) {
      TENON_TRY_ASSIGN(const int next, operand(node.inputs[i]));
      TENON_TRY_ASSIGN(sum, step(type, expression, {sum, next}));
    }
    if (node.op_type == "Mean") return step(type, format("$0 / num($0, {})", node.inputs.size()), {sum});
    return sum;
  }

  Result<int> transpose(const Node& node) {
    TENON_TRY_ASSIGN(const TensorId tensor, to_.any(node.inputs[0]));
    const DeviceTensor& read = to_.program().tensor(tensor);
    const std::vector<int64_t> strides = read.strides();
    TENON_TRY_ASSIGN(const std::vector<int64_t> perm, read_perm(node, read.shape.rank()));
    std::vector<int64_t> moved;
    moved.reserve(perm.size());
    for (int64_t axis : perm) moved.push_back(strides[axis]);
    if (shape_.rank() >= 3 && read.shape.element_count() == shape_.element_count() &&
        lies_as(shape_, moved, DeviceLayout::kChannelsLast) && to_.wants_channels_last(root_.outputs[0]))
      channels_last_ = true;
    return leaf(tensor, {.type = read.type, .strides = std::move(moved)});
  }

  Result<int> slice(const Node& node) {
    TENON_TRY_ASSIGN(const TensorId tensor, to_.any(node.inputs[0]));
    const DeviceTensor read = to_.program().tensor(tensor);
    TENON_TRY_ASSIGN(const SliceDesc slice, read_slice(node, read.shape, to_.integers_of(node)));
    GeneratedLeaf part{.type = read.type, .strides = read.strides()};
    for (size_t d = 0; d < part.strides.size(); ++d) {
      const SliceRange& range = slice.ranges[d];
      part.offset += range.start * part.strides[d];
      // A step that leaves at most one element may be too large to multiply.
      if (range.count > 1) part.strides[d] *= range.step;
    }
    return leaf(tensor, std::move(part));
  }

  Result<int> gather(const Node& node) {
    TENON_TRY_ASSIGN(const TensorId data, to_.any(node.inputs[0]));
    TENON_TRY_ASSIGN(const TensorId index, to_.plain(node.inputs[1]));
    const DeviceTensor read = to_.program().tensor(data), by = to_.program().tensor(index);
    TENON_TRY_ASSIGN(const int axis, read_gather_axis(node, read.shape.rank()));
    TENON_INVALID_IF(read.shape[axis] == 0 && shape_.element_count() != 0, "{} takes elements of nothing.",
                     to_.label(node));
    const std::vector<int64_t> strides = read.strides(), index_strides = by.strides();
    GeneratedLeaf part{.type = read.type, .gathered = true, .index_type = by.type};
    for (int i = 0; i < read.shape.rank(); ++i) {
      if (i != axis) {
        part.strides.push_back(strides[i]);
        part.index_strides.push_back(0);
        continue;
      }
      for (int64_t stride : index_strides) {
        part.strides.push_back(0);
        part.index_strides.push_back(stride);
      }
    }
    part.index_stride = strides[axis];
    part.index_limit = read.shape[axis];
    indices_.push_back(index);
    return leaf(data, std::move(part));
  }

  Result<int> pad(const Node& node) {
    TENON_TRY_ASSIGN(const TensorId tensor, to_.any(node.inputs[0]));
    const DeviceTensor read = to_.program().tensor(tensor);
    TENON_TRY_ASSIGN(const PadDesc pad, read_pad(node, read.shape, to_.integers_of(node)));
    TENON_UNSUPPORTED_IF(pad.mode != PadMode::kConstant || has_pad_attributes(node),
                         "{} pads with something other than a constant.", to_.label(node));
    GeneratedLeaf part{.type = read.type, .strides = read.strides()};
    for (size_t d = 0; d < part.strides.size(); ++d) {
      const PadAxis& axis = pad.axes[d];
      part.begin.push_back(axis.begin);
      part.end.push_back(axis.begin + axis.kept);
      part.offset += (axis.crop - axis.begin) * part.strides[d];
    }
    if (node.input(2) != kNoValue) {
      const ConstantRef& fill = to_.constant(node.inputs[2]);
      TENON_UNSUPPORTED_IF(fill == nullptr || fill->shape.element_count() != 1,
                           "{} pads with a value that is only known at run time.", to_.label(node));
      TENON_TRY_ASSIGN(part.fill, fill_bits(node, *fill, read.type));
    }
    return leaf(tensor, std::move(part));
  }

  // The bits of a constant's number, in the type that kernels compute in with elements of `type`.
  Result<uint64_t> fill_bits(const Node& node, const Constant& constant, DataType type) {
    const auto bits_of = [](auto value) {
      uint64_t bits = 0;
      std::memcpy(&bits, &value, sizeof(value));
      return bits;
    };
    if (type == DataType::kDouble && constant.type == DataType::kDouble) return bits_of(constant.as<double>()[0]);
    if (is_float(constant.type)) return bits_of(floats_of(constant)[0]);
    if (constant.type == DataType::kInt64) return bits_of(constant.as<int64_t>()[0]);
    if (constant.type == DataType::kInt32) return bits_of(constant.as<int32_t>()[0]);
    if (constant.type == DataType::kUint8) return bits_of(uint32_t{constant.as<uint8_t>()[0]});
    if (constant.type == DataType::kBool) return bits_of(constant.as<uint8_t>()[0] != 0);
    if (constant.type == DataType::kInt8) return bits_of(int32_t{constant.as<int8_t>()[0]});
    return unsupported("{} pads with {}.", to_.label(node), data_type_name(constant.type));
  }

  Result<int> batch_norm(const Node& node) {
    TENON_UNSUPPORTED_IF(node.inputs.size() != 5 || node.outputs.size() != 1 || read_batch_norm(node).training,
                         "{} trains.", to_.label(node));
    TENON_TRY_ASSIGN(const int x, operand(node.inputs[0]));
    std::vector<int> arguments = {x};
    for (size_t i = 1; i < 5; ++i) {
      TENON_TRY_ASSIGN(const int argument, channel_operand(node.inputs[i]));
      arguments.push_back(argument);
    }
    return step(to_.type_of(node.outputs[0]),
                format("($0 - $3) * rsqrt_of($4 + num($4, {:.9e})) * $1 + $2", read_batch_norm(node).epsilon),
                arguments);
  }

  Lowering& to_;
  const Node& root_;
  const Shape shape_;
  GeneratedElementwise kernel_;
  std::vector<TensorId> leaves_, indices_;
  std::vector<std::string> names_;
  bool channels_last_ = false;
};

}  // namespace

bool is_elementwise(const Graph&, const Node& node) {
  if (is_unary(node)) return true;
  if (!node.domain.empty()) return false;
  if (node.op_type == "Pad") {
    const Result<PadMode> mode = read_pad_mode(node);
    if (!mode.ok() || *mode != PadMode::kConstant) return false;
  }
  return find_row(node.op_type) != nullptr || std::find(kOthers.begin(), kOthers.end(), node.op_type) != kOthers.end();
}

namespace {

// A Transpose that moves nothing: it is another name of the order in which the elements lie, mostly of pixels with
// their channels last. False, and nothing done, where elements move.
Result<bool> lower_transposed_view(Lowering& to, const Node& node) {
  TENON_TRY_ASSIGN(const TensorId from, to.any(node.inputs[0]));
  const DeviceTensor tensor = to.program().tensor(from);
  TENON_TRY_ASSIGN(const std::vector<int64_t> perm, read_perm(node, tensor.shape.rank()));
  const std::vector<int64_t> strides = tensor.strides();
  std::vector<int64_t> moved;
  moved.reserve(perm.size());
  for (int64_t axis : perm) moved.push_back(strides[axis]);
  const ValueId y = node.outputs[0];
  const Shape shape = to.value(y).shape();
  DeviceLayout layout = DeviceLayout::kPlain;
  if (!lies_as(shape, moved, layout)) {
    // Others would have to be told by a kernel what they read: as long as the Transpose takes.
    layout = DeviceLayout::kChannelsLast;
    if (shape.rank() < 3 || !lies_as(shape, moved, layout) || !to.wants_channels_last(y)) return false;
  }
  to.alias(y, to.program().add_view(from, tensor.type, shape, layout));
  return true;
}

}  // namespace

Status lower_elementwise(Lowering& to, const Node& node) {
  if (node.op_type == "Transpose") {
    TENON_TRY_ASSIGN(const bool lowered, lower_transposed_view(to, node));
    if (lowered) return Status();
  }
  return Chain(to, node).build();
}

Status add_epilogue(Lowering& to, const Node& node, TensorId x, ValueId bias, ValueId residual,
                    const Epilogue& epilogue) {
  const Shape shape = to.value(node.outputs[0]).shape();
  const DataType type = to.type_of(node.outputs[0]);
  GeneratedElementwise kernel{.dims = {shape.begin(), shape.end()}, .type = type};
  std::vector<TensorId> leaves;
  const auto add_leaf = [&](TensorId id) {
    const DeviceTensor& read = to.program().tensor(id);
    kernel.leaves.push_back({.type = read.type, .strides = broadcast_strides(read.shape, read.strides(), shape)});
    leaves.push_back(id);
    return static_cast<int>(leaves.size() - 1);
  };
  const auto step = [&](std::string expression, std::vector<int> arguments) {
    kernel.steps.push_back({.type = type, .expression = std::move(expression), .arguments = std::move(arguments)});
    return ~static_cast<int>(kernel.steps.size() - 1);
  };
  int result = add_leaf(x);
  if (bias != kNoValue) {
    TENON_TRY_ASSIGN(const TensorId id, to.any(bias));
    result = step("$0 + $1", {result, add_leaf(id)});
  }
  int other = 0;
  if (residual != kNoValue) {
    TENON_TRY_ASSIGN(const TensorId id, to.plain(residual));
    other = add_leaf(id);
  }
  if (residual != kNoValue && !epilogue.residual_after) result = step("$0 + $1", {result, other});
  result = step(activation_expression(epilogue, "$0"), {result});
  if (residual != kNoValue && epilogue.residual_after) step("$0 + $1", {result, other});
  TENON_TRY_ASSIGN(const TensorId out, to.make(node.outputs[0]));
  kernel.strides = to.program().tensor(out).strides();
  return to.add_generated(node, "epilogue", kernel, std::move(leaves), {}, out);
}

}  // namespace tenon::cuda
