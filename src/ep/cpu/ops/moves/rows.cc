#include "ep/cpu/ops/moves/rows.h"

#include <array>
#include <optional>
#include <vector>

#include "ep/cpu/ops/moves/copy.h"
#include "ep/cpu/ops/vector_kernel.h"
#include "ops/concat.h"
#include "ops/slice.h"
#include "ops/split.h"
#include "ops/transpose.h"

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
  return std::span(values).first(count);
}

// Reads the constants of a node's inputs.
ReadIntegers integers_of_node(const KernelNode& node) {
  return [&node](size_t input) -> Result<std::vector<int64_t>> {
    std::optional<std::vector<int64_t>> values = integers_of(constant_input(node, input));
    TENON_UNSUPPORTED_IF(!values, "Input {} is no constant of integers.", input);
    return std::move(*values);
  };
}

// Copies x to the output of shape `y`, element by element from `offset` on by `strides` of x.
Result<std::unique_ptr<Kernel>> copy_by_strides(const KernelNode& node,
                                                const std::array<int64_t, Shape::kMaxRank>& strides, int64_t offset) {
  const Shape& y = output_spec(node, 0).shape;
  const StridedCopy copy(data_type_size(input_spec(node, 0).type), y.dims(), first(strides, y.rank()),
                         first(dense_strides(y), y.rank()), offset, 0);
  return make_copy({{0, 0, copy}});
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
  TENON_TRY_ASSIGN(const std::vector<int64_t> perm, read_perm(*node.node, x.rank()));
  TENON_INVALID_IF(y != transposed_shape(x, perm), "The output of shape {} is not a permutation of {}.", y.to_string(),
                   x.to_string());
  const auto strides = dense_strides(x);
  std::array<int64_t, Shape::kMaxRank> from{};
  for (size_t i = 0; i < perm.size(); ++i) from[i] = strides[perm[i]];
  return copy_by_strides(node, from, 0);
}

Result<std::unique_ptr<Kernel>> create_expand(const KernelNode& node) {
  TENON_UNSUPPORTED_IF(constant_input(node, 1) == nullptr, "The target shape is not constant.");
  const Shape &x = input_spec(node, 0).shape, &y = output_spec(node, 0).shape;
  TENON_INVALID_IF(x.rank() > y.rank(), "Shape {} does not broadcast to {}.", x.to_string(), y.to_string());
  const auto strides = dense_strides(x);
  std::array<int64_t, Shape::kMaxRank> from{};
  for (int i = 0; i < x.rank(); ++i) {
    const int axis = y.rank() - x.rank() + i;
    TENON_INVALID_IF(x[i] != 1 && x[i] != y[axis], "Shape {} does not broadcast to {}.", x.to_string(), y.to_string());
    from[axis] = x[i] == 1 ? 0 : strides[i];
  }
  return copy_by_strides(node, from, 0);
}

Result<std::unique_ptr<Kernel>> create_split(const KernelNode& node) {
  const Shape& x = input_spec(node, 0).shape;
  TENON_TRY_ASSIGN(const int axis, read_split_axis(*node.node, x.rank()));
  const auto strides = dense_strides(x);
  std::vector<Part> parts;
  int64_t begin = 0;
  for (size_t i = 0; i < node.outputs.size(); ++i) {
    const Shape& y = node.outputs[i].shape;
    Shape whole = x;
    if (y.rank() == x.rank()) whole[axis] = y[axis];
    TENON_INVALID_IF(y != whole || begin + y[axis] > x[axis], "Part {} of shape {} is not in the input of shape {}.", i,
                     y.to_string(), x.to_string());
    const int64_t offset = begin * strides[axis];
    parts.push_back({0, i,
                     StridedCopy(data_type_size(input_spec(node, 0).type), y.dims(), first(strides, x.rank()),
                                 first(dense_strides(y), y.rank()), offset, 0)});
    begin += y[axis];
  }
  return make_copy(std::move(parts));
}

Result<std::unique_ptr<Kernel>> create_concat(const KernelNode& node) {
  const Shape& y = output_spec(node, 0).shape;
  TENON_TRY_ASSIGN(const int axis, read_concat_axis(*node.node, y.rank()));
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
    const int64_t offset = begin * strides[axis];
    parts.push_back({i, 0,
                     StridedCopy(data_type_size(node.inputs[0].type), x.dims(), first(dense_strides(x), x.rank()),
                                 first(strides, y.rank()), 0, offset)});
    begin += x[axis];
  }
  TENON_INVALID_IF(begin != y[axis], "The inputs fill {} of the output's {}.", begin, y[axis]);
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
  TENON_TRY_ASSIGN(const SliceDesc slice, read_slice(*node.node, x, integers_of_node(node)));
  TENON_INVALID_IF(slice.output != y, "The output of shape {} is not the slice {} of {}.", y.to_string(),
                   slice.output.to_string(), x.to_string());
  const auto strides = dense_strides(x);
  std::array<int64_t, Shape::kMaxRank> from{};
  int64_t offset = 0;
  for (int d = 0; d < x.rank(); ++d) {
    const SliceRange& range = slice.ranges[d];
    offset += range.start * strides[d];
    // A step that leaves at most one element may be too large to multiply.
    if (range.count > 1) from[d] = strides[d] * range.step;
  }
  return copy_by_strides(node, from, offset);
}

}  // namespace tenon::cpu::nn
