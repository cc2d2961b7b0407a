// Constant nodes of shape and mask arithmetic, computed on the host.
#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <numeric>
#include <optional>
#include <type_traits>

#include "base/format.h"
#include "ep/cuda/compute/quantize.h"
#include "ep/cuda/compute/region.h"
#include "ops/attributes.h"
#include "ops/gather.h"
#include "ops/generate.h"
#include "ops/slice.h"
#include "ops/transpose.h"

namespace tenon::cuda {

namespace {

// A constant as doubles or as whole numbers, which hold what such nodes compute with.
struct Numbers {
  Shape shape;
  bool whole = true;
  std::vector<int64_t> ints;
  std::vector<double> reals;
  size_t size() const { return whole ? ints.size() : reals.size(); }
};

std::optional<Numbers> read(const Constant& constant) {
  Numbers numbers{.shape = constant.shape};
  const auto take = [&](auto values) { numbers.ints.assign(values.begin(), values.end()); };
  switch (constant.type) {
    case DataType::kInt64:
      take(constant.as<int64_t>());
      break;
    case DataType::kInt32:
      take(constant.as<int32_t>());
      break;
    case DataType::kBool:
      take(constant.as<uint8_t>());
      break;
    case DataType::kFloat:
      numbers.whole = false;
      numbers.reals.assign(constant.as<float>().begin(), constant.as<float>().end());
      break;
    default:
      return std::nullopt;
  }
  return numbers;
}

Result<ConstantRef> write(const Numbers& numbers, DataType type) {
  std::byte* data = nullptr;
  TENON_TRY_ASSIGN(ConstantRef constant, make_constant(type, numbers.shape, &data));
  const auto put = [&](auto* out) {
    for (size_t i = 0; i < numbers.size(); ++i) {
      using T = std::remove_pointer_t<decltype(out)>;
      out[i] = numbers.whole ? static_cast<T>(numbers.ints[i]) : static_cast<T>(numbers.reals[i]);
    }
  };
  switch (type) {
    case DataType::kInt64:
      put(reinterpret_cast<int64_t*>(data));
      break;
    case DataType::kInt32:
      put(reinterpret_cast<int32_t*>(data));
      break;
    case DataType::kFloat:
      put(reinterpret_cast<float*>(data));
      break;
    case DataType::kBool:
      for (size_t i = 0; i < numbers.size(); ++i)
        reinterpret_cast<uint8_t*>(data)[i] = numbers.whole ? numbers.ints[i] != 0 : numbers.reals[i] != 0;
      break;
    default:
      return unsupported("{} is not computed on the host.", data_type_name(type));
  }
  return constant;
}

// The index in `from` of element `index` of `to`, to which `from` broadcasts.
size_t broadcast_index(const Shape& to, const Shape& from, size_t index) {
  size_t at = 0, stride = 1;
  for (int i = to.rank() - 1, j = from.rank() - 1; i >= 0; --i, --j) {
    const size_t dim = std::max<int64_t>(to[i], 1);
    const size_t coordinate = index % dim;
    index /= dim;
    if (j < 0) continue;
    if (from[j] != 1) at += coordinate * stride;
    stride *= from[j];
  }
  return at;
}

// The whole part of `value`; the lowest integer for NaN and what does not fit (docs/reference/operators.md).
template <typename I>
int64_t whole_part(double value) {
  constexpr double kLimit = -static_cast<double>(std::numeric_limits<I>::min());
  return value >= -kLimit && value < kLimit ? static_cast<I>(value) : std::numeric_limits<I>::min();
}

using Inputs = std::vector<Numbers>;
template <typename F>
Numbers combine(const Inputs& in, const Shape& shape, bool whole, F&& f) {
  Numbers out{.shape = shape, .whole = whole};
  const size_t count = shape.element_count();
  for (size_t i = 0; i < count; ++i) {
    std::vector<size_t> at;
    for (const Numbers& input : in) at.push_back(broadcast_index(shape, input.shape, i));
    f(out, at);
  }
  return out;
}

template <typename T>
std::optional<bool> compared(const std::string& op, T a, T b) {
  if (op == "Equal") return a == b;
  if (op == "Less") return a < b;
  if (op == "LessOrEqual") return a <= b;
  if (op == "Greater") return a > b;
  if (op == "GreaterOrEqual") return a >= b;
  return std::nullopt;
}

// Whole numbers wrap, and a division by zero gives 0.
std::optional<int64_t> calculated(const Node& node, int64_t a, int64_t b) {
  const std::string& op = node.op_type;
  const auto x = static_cast<uint64_t>(a), y = static_cast<uint64_t>(b);
  if (op == "Add") return static_cast<int64_t>(x + y);
  if (op == "Sub") return static_cast<int64_t>(x - y);
  if (op == "Mul") return static_cast<int64_t>(x * y);
  if (op == "Min") return std::min(a, b);
  if (op == "Max") return std::max(a, b);
  if (op == "And") return (a != 0 && b != 0) ? 1 : 0;
  if (op == "Or") return (a != 0 || b != 0) ? 1 : 0;
  if (op == "Xor") return ((a != 0) != (b != 0)) ? 1 : 0;
  // The least number has no other half.
  if (op == "Div") return b == 0 ? 0 : b == -1 ? static_cast<int64_t>(0 - x) : a / b;
  if (op != "Mod") return std::nullopt;
  if (b == 0 || b == -1) return 0;
  const int64_t rest = a % b;
  return rest != 0 && !Attributes(node).flag("fmod") && (rest < 0) != (b < 0) ? rest + b : rest;
}

std::optional<double> calculated(const Node& node, double a, double b) {
  const std::string& op = node.op_type;
  if (op == "Add") return a + b;
  if (op == "Sub") return a - b;
  if (op == "Mul") return a * b;
  if (op == "Div") return a / b;
  // NaN wins; std::min() and std::max() keep it where it comes first.
  if (op == "Min") return b != b ? b : std::min(a, b);
  if (op == "Max") return b != b ? b : std::max(a, b);
  return std::nullopt;
}

std::optional<Numbers> arithmetic(const Node& node, const Inputs& in, const Shape& shape) {
  if (in.size() != 2 || in[0].whole != in[1].whole) return std::nullopt;
  const bool compares = compared(node.op_type, 0, 0).has_value();
  if (!compares &&
      !(in[0].whole ? calculated(node, int64_t{1}, int64_t{1}).has_value() : calculated(node, 1.0, 1.0).has_value()))
    return std::nullopt;
  return combine(in, shape, in[0].whole || compares, [&](Numbers& out, const std::vector<size_t>& at) {
    if (in[0].whole) {
      const int64_t a = in[0].ints[at[0]], b = in[1].ints[at[1]];
      out.ints.push_back(compares ? *compared(node.op_type, a, b) : *calculated(node, a, b));
    } else {
      const double a = in[0].reals[at[0]], b = in[1].reals[at[1]];
      if (compares)
        out.ints.push_back(*compared(node.op_type, a, b));
      else
        out.reals.push_back(*calculated(node, a, b));
    }
  });
}

std::optional<Numbers> unary(const std::string& op, const Numbers& in) {
  Numbers out = in;
  for (int64_t& number : out.ints) {
    if (op == "Not")
      number = number == 0 ? 1 : 0;
    else if (op == "Neg" || (op == "Abs" && number < 0))
      number = static_cast<int64_t>(0 - static_cast<uint64_t>(number));
    else if (op != "Abs")
      return std::nullopt;
  }
  for (double& number : out.reals) {
    if (op == "Neg")
      number = -number;
    else if (op == "Abs")
      number = std::fabs(number);
    else if (op == "Floor")
      number = std::floor(number);
    else if (op == "Ceil")
      number = std::ceil(number);
    else if (op == "Round")
      number = std::nearbyint(number);  // halves become even
    else if (op == "Sqrt")
      number = std::sqrt(number);
    else
      return std::nullopt;
  }
  return out;
}

// The numbers at `first` + the sum of coordinate * step over the axes of `shape`.
Numbers pick(const Numbers& from, const Shape& shape, int64_t first, std::span<const int64_t> steps) {
  Numbers out{.shape = shape, .whole = from.whole};
  for (int64_t i = 0; i < shape.element_count(); ++i) {
    int64_t at = first, rest = i;
    for (int axis = shape.rank(); axis-- > 0; rest /= shape[axis]) at += rest % shape[axis] * steps[axis];
    if (out.whole)
      out.ints.push_back(from.ints[at]);
    else
      out.reals.push_back(from.reals[at]);
  }
  return out;
}

std::vector<int64_t> strides_of(const Shape& shape) {
  std::vector<int64_t> strides(shape.rank(), 1);
  for (int i = shape.rank() - 1; i-- > 0;) strides[i] = strides[i + 1] * shape[i + 1];
  return strides;
}

std::optional<Numbers> transpose(const Node& node, const Numbers& in, const Shape& shape) {
  const Result<std::vector<int64_t>> perm = read_perm(node, in.shape.rank());
  if (!perm.ok()) return std::nullopt;
  const std::vector<int64_t> strides = strides_of(in.shape);
  std::vector<int64_t> steps;
  for (int64_t axis : *perm) steps.push_back(strides[axis]);
  return pick(in, shape, 0, steps);
}

std::optional<Numbers> concat(const Inputs& in, const Shape& shape) {
  if (shape.rank() != 1) return std::nullopt;
  Numbers out{.shape = shape, .whole = in[0].whole};
  for (const Numbers& part : in) {
    if (part.whole != out.whole) return std::nullopt;
    out.ints.insert(out.ints.end(), part.ints.begin(), part.ints.end());
    out.reals.insert(out.reals.end(), part.reals.begin(), part.reals.end());
  }
  return out;
}

std::optional<Numbers> gather(const Node& node, const Inputs& in, const Shape& shape) {
  if (in.size() != 2 || in[0].shape.rank() != 1 || !read_gather_axis(node, 1).ok() || !in[1].whole) return std::nullopt;
  Numbers out{.shape = shape, .whole = in[0].whole};
  const auto count = static_cast<int64_t>(in[0].size());
  for (int64_t index : in[1].ints) {
    if (index < -count || index >= count) return std::nullopt;
    const size_t at = index < 0 ? index + count : index;
    if (out.whole) {
      out.ints.push_back(in[0].ints[at]);
    } else {
      out.reals.push_back(in[0].reals[at]);
    }
  }
  return out;
}

std::optional<Numbers> slice(const Node& node, const Inputs& in) {
  if (in.size() < 3) return std::nullopt;
  const Result<SliceDesc> slice =
      read_slice(node, in[0].shape, [&](size_t input) -> Result<std::vector<int64_t>> { return in[input].ints; });
  if (!slice.ok()) return std::nullopt;
  const std::vector<int64_t> strides = strides_of(in[0].shape);
  int64_t first = 0;
  std::vector<int64_t> steps;
  for (size_t axis = 0; axis < strides.size(); ++axis) {
    first += slice->ranges[axis].start * strides[axis];
    steps.push_back(slice->ranges[axis].step * strides[axis]);
  }
  return pick(in[0], slice->output, first, steps);
}

std::optional<Numbers> compute(const Graph& graph, const Node& node, const Inputs& in, const Shape& shape) {
  const std::string& op = node.op_type;
  if (op == "Concat") return concat(in, shape);
  if (op == "Gather") return gather(node, in, shape);
  if (op == "Slice") return slice(node, in);
  if (op == "Transpose") return transpose(node, in[0], shape);
  if (op == "Cast" || op == "Expand" || op == "Identity") {
    const DataType type = graph.value(node.outputs[0]).type;
    return combine({in[0]}, shape, in[0].whole || type != DataType::kFloat,
                   [&](Numbers& out, const std::vector<size_t>& at) {
                     if (in[0].whole)
                       out.ints.push_back(in[0].ints[at[0]]);
                     else if (!out.whole)
                       out.reals.push_back(in[0].reals[at[0]]);
                     else if (type == DataType::kBool)
                       out.ints.push_back(in[0].reals[at[0]] != 0);
                     else if (type == DataType::kInt32)
                       out.ints.push_back(whole_part<int32_t>(in[0].reals[at[0]]));
                     else
                       out.ints.push_back(whole_part<int64_t>(in[0].reals[at[0]]));
                   });
  }
  if (op == "Where" && in.size() == 3 && in[1].whole == in[2].whole) {
    return combine(in, shape, in[1].whole, [&](Numbers& out, const std::vector<size_t>& at) {
      const size_t which = in[0].ints[at[0]] != 0 ? 1 : 2;
      if (out.whole)
        out.ints.push_back(in[which].ints[at[which]]);
      else
        out.reals.push_back(in[which].reals[at[which]]);
    });
  }
  if (op == "Range" && in.size() == 3 && in[0].size() == 1 && in[2].size() == 1 && in[0].whole == in[2].whole) {
    Numbers out{.shape = shape, .whole = in[0].whole};
    for (int64_t i = 0; i < shape.element_count(); ++i) {
      if (out.whole)
        out.ints.push_back(in[0].ints[0] + i * in[2].ints[0]);
      else
        out.reals.push_back(in[0].reals[0] + static_cast<double>(i) * in[2].reals[0]);
    }
    return out;
  }
  if (op == "ConstantOfShape") {
    Numbers fill{.shape = Shape{}, .whole = false, .ints = {}, .reals = {0}};
    if (const ConstantRef value = read_fill_value(node)) {
      const std::optional<Numbers> given = read(*value);
      if (!given || given->size() != 1) return std::nullopt;
      fill = *given;
      fill.shape = Shape{};
    }
    return combine({fill}, shape, fill.whole, [&](Numbers& out, const std::vector<size_t>&) {
      if (out.whole)
        out.ints.push_back(fill.ints[0]);
      else
        out.reals.push_back(fill.reals[0]);
    });
  }
  if (op == "ReduceProd" && in[0].whole && shape.element_count() == 1) {
    return Numbers{.shape = shape,
                   .ints = {std::accumulate(in[0].ints.begin(), in[0].ints.end(), int64_t{1}, std::multiplies<>())}};
  }
  return in.size() == 1 ? unary(op, in[0]) : arithmetic(node, in, shape);
}

}  // namespace

Result<std::vector<ConstantRef>> evaluate_on_host(const Graph& graph, const Node& node) {
  if (can_dequantize_on_host(graph, node)) {
    TENON_TRY_ASSIGN(ConstantRef weights, dequantize_on_host(graph, node));
    return std::vector<ConstantRef>{std::move(weights)};
  }
  if (!node.domain.empty() || node.outputs.size() != 1 || node.inputs.empty())
    return unsupported("{} is not computed on the host.", node.label(graph));
  const Value& result = graph.value(node.outputs[0]);
  TENON_UNSUPPORTED_IF(!result.fully_known() || result.shape().element_count() > kMostOnHost,
                       "{} is not computed on the host.", node.label(graph));
  Inputs inputs;
  for (ValueId id : node.inputs) {
    std::optional<Numbers> numbers = id != kNoValue ? read(*graph.value(id).constant) : std::nullopt;
    TENON_UNSUPPORTED_IF(!numbers || static_cast<int64_t>(numbers->size()) > kMostOnHost,
                         "{} is not computed on the host.", node.label(graph));
    inputs.push_back(std::move(*numbers));
  }
  const std::optional<Numbers> numbers = compute(graph, node, inputs, result.shape());
  TENON_UNSUPPORTED_IF(!numbers || static_cast<int64_t>(numbers->size()) != result.shape().element_count(),
                       "{} is not computed on the host.", node.label(graph));
  TENON_TRY_ASSIGN(ConstantRef constant, write(*numbers, result.type));
  return std::vector<ConstantRef>{std::move(constant)};
}

}  // namespace tenon::cuda
