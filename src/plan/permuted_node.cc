#include "plan/permuted_node.h"

#include <algorithm>
#include <numeric>
#include <string>
#include <string_view>

#include "ops/attributes.h"
#include "ops/axes.h"
#include "ops/concat.h"
#include "ops/elementwise.h"
#include "ops/integer_inputs.h"
#include "ops/pad.h"
#include "ops/reduce.h"
#include "ops/reshape.h"
#include "ops/resize.h"
#include "ops/slice.h"
#include "ops/unary.h"

namespace tenon {
namespace {

using Perm = std::span<const int64_t>;

template <size_t N>
bool is_one_of(std::string_view op, const std::string_view (&list)[N]) {
  return std::find(std::begin(list), std::end(list), op) != std::end(list);
}

// One function of each element, whose other inputs are numbers.
constexpr std::string_view kUnary[] = {"BitwiseNot", "Cast", "Clip", "Identity", "IsInf", "IsNaN", "Not", "Sign"};

std::optional<std::vector<int64_t>> integers(const Rewriter& rewriter, ValueId id) {
  return integers_of(rewriter.constant(id).get());
}

// Lists with an element an axis, in the order of the Transpose's input.
template <typename T>
std::vector<T> permuted_list(std::span<const T> list, Perm perm) {
  std::vector<T> moved(list.size());
  for (size_t part = 0; part < list.size(); part += perm.size())
    for (size_t i = 0; i < perm.size(); ++i) moved[part + perm[i]] = list[part + i];
  return moved;
}

// The axes of the Transpose's input that `axes` of its output are; nullopt for axes that do not exist.
std::optional<std::vector<int64_t>> permuted_axes(std::span<const int64_t> axes, Perm perm) {
  std::vector<int64_t> moved;
  for (const int64_t axis : axes) {
    const Result<int> at = normalized_axis(axis, static_cast<int>(perm.size()));
    if (!at.ok()) return std::nullopt;
    moved.push_back(perm[*at]);
  }
  return moved;
}

// Whether the axes of the output other than `gone` are in their order before the Transpose, too.
bool keeps_order_without(std::span<const int64_t> gone, Perm perm) {
  int64_t last = -1;
  for (size_t i = 0; i < perm.size(); ++i) {
    const bool goes = std::any_of(gone.begin(), gone.end(), [&](int64_t axis) {
      return axis == static_cast<int64_t>(i) || axis + std::ssize(perm) == static_cast<int64_t>(i);
    });
    if (goes) continue;
    if (perm[i] < last) return false;
    last = perm[i];
  }
  return true;
}

// An operator with the attribute `axis`, along which it works.
std::optional<PermutedNode> along_axis(const Node& node, Perm perm) {
  const Result<int> axis = normalized_axis(Attributes(node).integer("axis"), static_cast<int>(perm.size()));
  if (!axis.ok()) return std::nullopt;
  PermutedNode permuted{.data = {0}, .node = node, .constants = {}};
  permuted.node.set_int("axis", perm[*axis]);
  return permuted;
}

std::optional<PermutedNode> reduction(const Rewriter& rewriter, const Node& node, Perm perm) {
  const std::optional<ReduceDesc> reduce = constant_reduce(rewriter, node);
  if (!reduce || reduce->axes.empty()) return std::nullopt;
  std::optional<std::vector<int64_t>> axes = permuted_axes(reduce->axes, perm);
  if (!axes || (!reduce->keepdims && !keeps_order_without(reduce->axes, perm))) return std::nullopt;
  std::sort(axes->begin(), axes->end());
  PermutedNode permuted{.data = {0}, .permutes_outputs = reduce->keepdims, .node = node, .constants = {}};
  if (node.has("axes")) {
    permuted.node.set_ints("axes", *std::move(axes));
  } else {
    permuted.constants.emplace_back(1, make_int64_constant(*axes));
  }
  return permuted;
}

std::optional<PermutedNode> arg_reduction(const Node& node, Perm perm) {
  std::optional<PermutedNode> permuted = along_axis(node, perm);
  const int64_t axis = Attributes(node).integer("axis");
  if (!permuted || Attributes(node).flag("keepdims")) return permuted;
  permuted->permutes_outputs = false;
  return keeps_order_without(std::span(&axis, 1), perm) ? permuted : std::nullopt;
}

std::optional<PermutedNode> squeeze(const Rewriter& rewriter, const Node& node, Perm perm) {
  const Result<std::vector<int64_t>> axes = read_squeeze_axes(node, constant_integers(rewriter.graph(), node));
  if (!axes.ok() || axes->empty() || !keeps_order_without(*axes, perm)) return std::nullopt;
  std::optional<std::vector<int64_t>> moved = permuted_axes(*axes, perm);
  if (!moved) return std::nullopt;
  std::sort(moved->begin(), moved->end());
  PermutedNode permuted{.data = {0}, .permutes_outputs = false, .node = node, .constants = {}};
  if (node.has("axes")) {
    permuted.node.set_ints("axes", *std::move(moved));
  } else {
    permuted.constants.emplace_back(1, make_int64_constant(*moved));
  }
  return permuted;
}

std::optional<PermutedNode> pad(const Rewriter& rewriter, const Node& node, Perm perm) {
  PermutedNode permuted{.data = {0}, .node = node, .constants = {}};
  if (has_pad_attributes(node)) {
    const std::span<const int64_t> pads = pad_attribute(node);
    if (pads.size() != 2 * perm.size()) return std::nullopt;
    permuted.node.set_ints(node.has("pads") ? "pads" : "paddings", permuted_list(pads, perm));
    return permuted;
  }
  if (node.input(3) != kNoValue) {
    const std::optional<std::vector<int64_t>> axes = integers(rewriter, node.inputs[3]);
    const std::optional<std::vector<int64_t>> moved = axes ? permuted_axes(*axes, perm) : std::nullopt;
    if (!moved) return std::nullopt;
    permuted.constants.emplace_back(3, make_int64_constant(*moved));
    return permuted;
  }
  const std::optional<std::vector<int64_t>> pads = integers(rewriter, node.input(1));
  if (!pads || pads->size() != 2 * perm.size()) return std::nullopt;
  permuted.constants.emplace_back(1, make_int64_constant(permuted_list(std::span<const int64_t>(*pads), perm)));
  return permuted;
}

std::optional<PermutedNode> slice(const Rewriter& rewriter, const Node& node, Perm perm) {
  if (has_slice_attributes(node) || node.input(1) == kNoValue) return std::nullopt;
  std::optional<std::vector<int64_t>> axes;
  if (node.input(3) != kNoValue) {
    axes = integers(rewriter, node.inputs[3]);
  } else if (const Value& starts = rewriter.value(node.inputs[1]); starts.fully_known() && starts.dims.size() == 1) {
    axes.emplace(starts.dims[0].value);
    std::iota(axes->begin(), axes->end(), 0);
  }
  const std::optional<std::vector<int64_t>> moved = axes ? permuted_axes(*axes, perm) : std::nullopt;
  if (!moved) return std::nullopt;
  // The inputs with bounds are of one type.
  if (rewriter.value(node.inputs[1]).type != DataType::kInt64) return std::nullopt;
  PermutedNode permuted{.data = {0}, .node = node, .constants = {}};
  permuted.constants.emplace_back(3, make_int64_constant(*moved));
  return permuted;
}

std::optional<PermutedNode> resize(const Rewriter& rewriter, const Node& node, Perm perm) {
  const auto rank = static_cast<int>(perm.size());
  const Result<ResizeDesc> desc = read_resize(node, rank);
  if (!desc.ok() || desc->settings.coordinates == ResizeSettings::Coordinates::kTfCrop) return std::nullopt;
  PermutedNode permuted{.data = {0}, .node = node, .constants = {}};
  if (node.has("axes")) {
    std::vector<int64_t> axes;
    for (const int axis : desc->axes) axes.push_back(perm[axis]);
    permuted.node.set_ints("axes", std::move(axes));
    return permuted;
  }
  const auto given = [&](size_t input) {
    return input != kNoInput && node.input(input) != kNoValue &&
           !(rewriter.constant(node.inputs[input]) != nullptr &&
             rewriter.constant(node.inputs[input])->size_bytes == 0);
  };
  if (given(desc->sizes_input)) {
    const std::optional<std::vector<int64_t>> sizes = integers(rewriter, node.inputs[desc->sizes_input]);
    if (!sizes || sizes->size() != perm.size()) return std::nullopt;
    permuted.constants.emplace_back(desc->sizes_input,
                                    make_int64_constant(permuted_list(std::span<const int64_t>(*sizes), perm)));
    return permuted;
  }
  if (!given(desc->scales_input)) return std::nullopt;
  const ConstantRef& scales = rewriter.constant(node.inputs[desc->scales_input]);
  if (scales == nullptr || scales->type != DataType::kFloat || scales->as<float>().size() != perm.size())
    return std::nullopt;
  const std::vector<float> moved = permuted_list(scales->as<float>(), perm);
  std::byte* data = nullptr;
  const Result<ConstantRef> made = make_constant(DataType::kFloat, scales->shape, &data, Fill::kNothing);
  if (!made.ok()) return std::nullopt;
  std::copy(moved.begin(), moved.end(), reinterpret_cast<float*>(data));
  permuted.constants.emplace_back(desc->scales_input, *made);
  return permuted;
}

// Expand and Tile: input 1 has a number an axis.
std::optional<PermutedNode> repetition(const Rewriter& rewriter, const Node& node, Perm perm) {
  const std::optional<std::vector<int64_t>> numbers = integers(rewriter, node.input(1));
  if (!numbers || numbers->size() != perm.size()) return std::nullopt;
  PermutedNode permuted{.data = {0}, .node = node, .constants = {}};
  permuted.constants.emplace_back(1, make_int64_constant(permuted_list(std::span<const int64_t>(*numbers), perm)));
  return permuted;
}

// QuantizeLinear and DequantizeLinear.
std::optional<PermutedNode> quantisation(const Rewriter& rewriter, const Node& node, Perm perm) {
  if (node.input(1) == kNoValue) return std::nullopt;
  const Value& scale = rewriter.value(node.inputs[1]);
  if (scale.fully_known() && scale.dims.size() <= 1 && scale.shape().element_count() == 1)
    return PermutedNode{.data = {0}, .node = node, .constants = {}};
  constexpr int kHasAxis = 13;
  if (node.since_version < kHasAxis || !scale.has_rank || scale.dims.size() != 1) return std::nullopt;
  return along_axis(node, perm);
}

}  // namespace

std::optional<PermutedNode> permuted_node(const Rewriter& rewriter, const Node& node, Perm perm) {
  if (!node.domain.empty() || node.inputs.empty() || node.inputs[0] == kNoValue) return std::nullopt;
  constexpr int kBroadcasts = 7, kSoftmaxOfOneAxis = 13;
  const std::string_view op = node.op_type;
  if (is_unary(node) || is_one_of(op, kUnary)) return PermutedNode{.data = {0}, .node = node, .constants = {}};
  if (broadcasts_inputs(node)) {
    if (node.since_version < kBroadcasts && (node.has("axis") || node.has("broadcast"))) return std::nullopt;
    PermutedNode permuted{.data = std::vector<size_t>(node.inputs.size()), .node = node, .constants = {}};
    std::iota(permuted.data.begin(), permuted.data.end(), 0);
    return permuted;
  }
  if (op == "Concat") {
    std::optional<PermutedNode> permuted = along_axis(node, perm);
    if (!permuted) return std::nullopt;
    permuted->data.resize(node.inputs.size());
    std::iota(permuted->data.begin(), permuted->data.end(), 0);
    const bool whole = std::all_of(node.inputs.begin(), node.inputs.end(), [&](ValueId id) {
      return id != kNoValue && rewriter.value(id).has_rank && rewriter.value(id).dims.size() == perm.size();
    });
    return whole ? permuted : std::nullopt;
  }
  if (op == "Split") return along_axis(node, perm);
  if (op == "Softmax" || op == "LogSoftmax" || op == "Hardmax")
    return node.since_version >= kSoftmaxOfOneAxis ? along_axis(node, perm) : std::nullopt;
  if (op.starts_with("Reduce")) return reduction(rewriter, node, perm);
  if (op == "ArgMax" || op == "ArgMin") return arg_reduction(node, perm);
  if (op == "Squeeze") return squeeze(rewriter, node, perm);
  if (op == "Pad") return pad(rewriter, node, perm);
  if (op == "Slice") return slice(rewriter, node, perm);
  if (op == "Resize" || op == "Upsample") return resize(rewriter, node, perm);
  if (op == "Expand" || op == "Tile") return repetition(rewriter, node, perm);
  if (op == "QuantizeLinear" || op == "DequantizeLinear") return quantisation(rewriter, node, perm);
  return std::nullopt;
}

std::optional<PermutedInput> permuted_input(const Rewriter& rewriter, ValueId id, size_t rank) {
  if (id == kNoValue) return std::nullopt;
  const Value& value = rewriter.value(id);
  if (!value.has_rank || !value.is_tensor || value.dims.size() > rank) return std::nullopt;
  const auto sizes = std::count_if(value.dims.begin(), value.dims.end(), [](const Dim& dim) { return dim.value != 1; });
  if (sizes == 0 && (value.dims.empty() || value.constant != nullptr)) return PermutedInput::kSame;
  if (value.constant != nullptr && sizes <= 1) return PermutedInput::kConstant;
  return value.dims.size() == rank ? std::optional(PermutedInput::kTensor) : std::nullopt;
}

}  // namespace tenon
