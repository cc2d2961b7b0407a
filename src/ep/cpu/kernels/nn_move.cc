#include "ep/cpu/kernels/nn_move.h"

#include <algorithm>
#include <array>
#include <numeric>
#include <vector>

#include "ep/cpu/kernels/nn_common.h"
#include "ep/cpu/kernels/nn_copy.h"

namespace tenon::cpu::nn {

namespace {

struct Part {
  size_t input, output;
  StridedCopy copy;
};

class CopyKernel final : public Kernel {
 public:
  explicit CopyKernel(std::vector<Part> parts) : parts_(std::move(parts)) {}
  Status run(KernelContext& context) const override {
    for (const Part& part : parts_)
      part.copy.run(context.input<std::byte>(part.input), context.output<std::byte>(part.output), *context.pool);
    return {};
  }
  std::string_view name() const override { return "strided copy"; }

 private:
  const std::vector<Part> parts_;
};

std::unique_ptr<Kernel> make_copy(std::vector<Part> parts) { return std::make_unique<CopyKernel>(std::move(parts)); }

std::span<const int64_t> first(const std::array<int64_t, Shape::kMaxRank>& values, int count) {
  return {values.data(), static_cast<size_t>(count)};
}

// An input that holds int64 or int32 constants, or the attribute of older versions.
Result<std::vector<int64_t>> constant_integers(const KernelNode& node, size_t input, std::string_view attribute) {
  std::vector<int64_t> values;
  if (!input_spec(node, input).present()) {
    const auto given = node.node->ints(attribute);
    values.assign(given.begin(), given.end());
    return values;
  }
  const Constant* constant = constant_input(node, input);
  TENON_UNSUPPORTED_IF(constant == nullptr, "Input {} is not constant.", input);
  if (constant->type == DataType::kInt64) {
    const auto given = constant->as<int64_t>();
    values.assign(given.begin(), given.end());
  } else if (constant->type == DataType::kInt32) {
    const auto given = constant->as<int32_t>();
    values.assign(given.begin(), given.end());
  } else {
    return unsupported("Input {} is {}, not int64 or int32.", input, data_type_name(constant->type));
  }
  return values;
}

}  // namespace

Status match_move(const KernelNode& node) {
  TENON_UNSUPPORTED_IF(node.inputs.empty() || node.outputs.empty(), "There is no input or no output.");
  TENON_TRY(check_copyable(node.inputs[0].type));
  for (const TensorSpec& spec : node.inputs)
    TENON_UNSUPPORTED_IF(spec.layout != Layout::kPlain, "An input is not in the plain layout.");
  for (const TensorSpec& spec : node.outputs)
    TENON_UNSUPPORTED_IF(spec.layout != Layout::kPlain || spec.dynamic || !spec.present(),
                         "An output is not plain and of known size.");
  return {};
}

Result<std::unique_ptr<Kernel>> create_transpose(const KernelNode& node) {
  const Shape &x = input_spec(node, 0).shape, &y = output_spec(node, 0).shape;
  std::vector<int64_t> order(static_cast<size_t>(x.rank()));
  if (node.node->has("perm")) {
    const auto given = node.node->ints("perm");
    order.assign(given.begin(), given.end());
  } else {
    std::iota(order.rbegin(), order.rend(), 0);
  }
  std::vector<int64_t> sorted = order;
  std::sort(sorted.begin(), sorted.end());
  bool valid = sorted.size() == static_cast<size_t>(x.rank()) && y.rank() == x.rank();
  for (size_t i = 0; valid && i < sorted.size(); ++i) valid = sorted[i] == static_cast<int64_t>(i);
  TENON_INVALID_IF(!valid, "The permutation does not fit the shapes {} and {}.", x.to_string(), y.to_string());
  const auto strides = dense_strides(x);
  std::array<int64_t, Shape::kMaxRank> from{};
  for (int i = 0; i < y.rank(); ++i) {
    const auto axis = static_cast<size_t>(order[static_cast<size_t>(i)]);
    TENON_INVALID_IF(y[i] != x[static_cast<int>(axis)], "The output of shape {} is not a permutation of {}.",
                     y.to_string(), x.to_string());
    from[static_cast<size_t>(i)] = strides[axis];
  }
  const StridedCopy copy(data_type_size(input_spec(node, 0).type), y.dims(), first(from, y.rank()),
                         first(dense_strides(y), y.rank()), 0, 0);
  return make_copy({{0, 0, copy}});
}

Result<std::unique_ptr<Kernel>> create_expand(const KernelNode& node) {
  const Shape &x = input_spec(node, 0).shape, &y = output_spec(node, 0).shape;
  TENON_INVALID_IF(x.rank() > y.rank(), "Shape {} does not broadcast to {}.", x.to_string(), y.to_string());
  const auto strides = dense_strides(x);
  std::array<int64_t, Shape::kMaxRank> from{};
  for (int i = 0; i < x.rank(); ++i) {
    const int axis = y.rank() - x.rank() + i;
    TENON_INVALID_IF(x[i] != 1 && x[i] != y[axis], "Shape {} does not broadcast to {}.", x.to_string(), y.to_string());
    from[static_cast<size_t>(axis)] = x[i] == 1 ? 0 : strides[static_cast<size_t>(i)];
  }
  const StridedCopy copy(data_type_size(input_spec(node, 0).type), y.dims(), first(from, y.rank()),
                         first(dense_strides(y), y.rank()), 0, 0);
  return make_copy({{0, 0, copy}});
}

Result<std::unique_ptr<Kernel>> create_split(const KernelNode& node) {
  const Shape& x = input_spec(node, 0).shape;
  TENON_TRY_ASSIGN(const int axis, checked_axis(node.node->int_or("axis", 0), x.rank()));
  const auto strides = dense_strides(x);
  std::vector<Part> parts;
  int64_t begin = 0;
  for (size_t i = 0; i < node.outputs.size(); ++i) {
    const Shape& y = node.outputs[i].shape;
    Shape whole = x;
    if (y.rank() == x.rank()) whole[axis] = y[axis];
    TENON_INVALID_IF(y != whole || begin + y[axis] > x[axis], "Part {} of shape {} is not in the input of shape {}.", i,
                     y.to_string(), x.to_string());
    const int64_t offset = begin * strides[static_cast<size_t>(axis)];
    parts.push_back({0, i,
                     StridedCopy(data_type_size(input_spec(node, 0).type), y.dims(), first(strides, x.rank()),
                                 first(dense_strides(y), y.rank()), offset, 0)});
    begin += y[axis];
  }
  return make_copy(std::move(parts));
}

Result<std::unique_ptr<Kernel>> create_concat(const KernelNode& node) {
  const Shape& y = output_spec(node, 0).shape;
  TENON_TRY_ASSIGN(const int axis, checked_axis(node.node->int_or("axis", 0), y.rank()));
  const auto strides = dense_strides(y);
  std::vector<Part> parts;
  int64_t begin = 0;
  for (size_t i = 0; i < node.inputs.size(); ++i) {
    const Shape& x = node.inputs[i].shape;
    Shape whole = y;
    if (x.rank() == y.rank()) whole[axis] = x[axis];
    TENON_INVALID_IF(x != whole || begin + x[axis] > y[axis], "Input {} of shape {} is not in the output of shape {}.",
                     i, x.to_string(), y.to_string());
    TENON_INVALID_IF(node.inputs[i].type != node.inputs[0].type, "The inputs differ in their types.");
    const int64_t offset = begin * strides[static_cast<size_t>(axis)];
    parts.push_back({i, 0,
                     StridedCopy(data_type_size(node.inputs[0].type), x.dims(), first(dense_strides(x), x.rank()),
                                 first(strides, y.rank()), 0, offset)});
    begin += x[axis];
  }
  TENON_INVALID_IF(begin != y[axis], "The inputs fill {} of the output's {} places.", begin, y[axis]);
  return make_copy(std::move(parts));
}

Status match_slice(const KernelNode& node) {
  TENON_TRY(match_move(node));
  for (size_t i = 1; i < node.inputs.size(); ++i)
    TENON_UNSUPPORTED_IF(node.inputs[i].present() && constant_input(node, i) == nullptr,
                         "The bounds are not constant.");
  return {};
}

Result<std::unique_ptr<Kernel>> create_slice(const KernelNode& node) {
  const Shape &x = input_spec(node, 0).shape, &y = output_spec(node, 0).shape;
  TENON_TRY_ASSIGN(const std::vector<int64_t> starts, constant_integers(node, 1, "starts"));
  TENON_TRY_ASSIGN(std::vector<int64_t> axes, constant_integers(node, 3, "axes"));
  TENON_TRY_ASSIGN(std::vector<int64_t> steps, constant_integers(node, 4, ""));
  if (axes.empty()) {
    axes.resize(starts.size());
    std::iota(axes.begin(), axes.end(), 0);
  }
  if (steps.empty()) steps.assign(starts.size(), 1);
  TENON_INVALID_IF(axes.size() != starts.size() || steps.size() != starts.size() || y.rank() != x.rank(),
                   "There are {} starts, {} axes and {} steps.", starts.size(), axes.size(), steps.size());
  const auto strides = dense_strides(x);
  auto from = strides;
  int64_t offset = 0;
  Shape sliced = x;
  std::array<bool, Shape::kMaxRank> seen{};
  for (size_t i = 0; i < starts.size(); ++i) {
    TENON_TRY_ASSIGN(const int axis, checked_axis(axes[i], x.rank()));
    TENON_INVALID_IF(seen[static_cast<size_t>(axis)], "Axis {} is sliced twice.", axis);
    seen[static_cast<size_t>(axis)] = true;
    const int64_t dim = x[axis], step = steps[i];
    TENON_INVALID_IF(step == 0, "A step is 0.");
    int64_t start = starts[i] < 0 ? starts[i] + dim : starts[i];
    start = std::clamp<int64_t>(start, 0, step > 0 ? dim : std::max<int64_t>(0, dim - 1));
    // The ends are in the output's shape already; what matters is that every place is inside.
    const int64_t count = y[axis];
    if (count > 0) {
      const int64_t room = step > 0 ? dim - 1 - start : start;
      const int64_t longest = count == 1 ? 0 : room / (count - 1);
      const bool inside = start < dim && (count == 1 || (step > 0 ? step <= longest : step >= -longest));
      TENON_INVALID_IF(!inside, "{} places from {} by {} are not inside dimension {} of shape {}.", count, start, step,
                       axis, x.to_string());
      offset += start * strides[static_cast<size_t>(axis)];
      from[static_cast<size_t>(axis)] = count == 1 ? 0 : strides[static_cast<size_t>(axis)] * step;
    }
    sliced[axis] = count;
  }
  TENON_INVALID_IF(sliced != y, "The output of shape {} is not a slice of shape {}.", y.to_string(), x.to_string());
  const StridedCopy copy(data_type_size(input_spec(node, 0).type), y.dims(), first(from, y.rank()),
                         first(dense_strides(y), y.rank()), offset, 0);
  return make_copy({{0, 0, copy}});
}

}  // namespace tenon::cpu::nn
