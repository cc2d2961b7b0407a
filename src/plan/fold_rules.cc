#include "plan/fold_rules.h"

#include <algorithm>
#include <cstring>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <utility>

#include "base/checked.h"
#include "ops/concat.h"
#include "ops/gather.h"
#include "ops/generate.h"
#include "ops/pad.h"
#include "ops/reshape.h"
#include "ops/shape_inference_context.h"
#include "ops/slice.h"
#include "ops/split.h"
#include "ops/transpose.h"

namespace tenon::fold_rules {
namespace {

bool same_type_and_dims(const Value& a, const Value& b) {
  if (a.type != b.type || a.type == DataType::kUndefined || !a.has_rank || !b.has_rank) return false;
  return infer::same(a.dims, b.dims);
}

bool is_one_of(std::string_view op, std::initializer_list<std::string_view> names) {
  return std::find(names.begin(), names.end(), op) != names.end();
}

// Every element of a constant of a plain numeric type equals `number`.
bool every_element_is(const ConstantRef& constant, double number) {
  if (!constant || constant->size_bytes == 0) return false;
  // Weights differ in the first element, and are left where they lie.
  auto all = [&]<typename T>(T first) {
    std::memcpy(&first, constant->data.stored(), sizeof(T));
    const auto equal = [&](T e) { return static_cast<double>(e) == number; };
    return equal(first) && std::ranges::all_of(constant->as<T>(), equal);
  };
  switch (constant->type) {
    case DataType::kFloat:
      return all(float{});
    case DataType::kDouble:
      return all(double{});
    case DataType::kInt64:
      return all(int64_t{});
    case DataType::kInt32:
      return all(int32_t{});
    default:
      return false;
  }
}

// How a Transpose permutes `x`: nullopt while the rank of `x` is unknown, because no `perm` means reversed then.
std::optional<std::vector<int64_t>> permutation(const Node& node, const Value& x) {
  if (!x.has_rank) return std::nullopt;
  Result<std::vector<int64_t>> perm = read_perm(node, static_cast<int>(x.dims.size()));
  return perm.ok() ? std::optional(std::move(*perm)) : std::nullopt;
}

// Becomes Reshape to the (known) shape of its output.
void make_reshape(Graph& graph, Node& node) {
  std::vector<int64_t> dims;
  for (const Dim& dim : graph.value(node.outputs[0]).dims) dims.push_back(dim.value);
  const ValueId shape = graph.add_constant(graph.value(node.outputs[0]).name + ":shape", make_int64_constant(dims));
  write_reshape(node, node.inputs[0], shape);
}

// The reduced dimensions are all 1: the value stays the same.
bool reduces_only_ones(const Graph& graph, const Node& node) {
  if (!is_one_of(node.op_type, {"ReduceMax", "ReduceMean", "ReduceMin", "ReduceProd", "ReduceSum"})) return false;
  const Value& x = graph.value(node.inputs[0]);
  const Value& y = graph.value(node.outputs[0]);
  if (!x.fully_known() || !y.fully_known() || x.type != y.type) return false;
  Result<int64_t> before = x.shape().checked_element_count(), after = y.shape().checked_element_count();
  return before.ok() && after.ok() && *before == *after && *before > 0;
}

bool keeps_order(const Graph& graph, const Node& node) {
  const Value& x = graph.value(node.inputs[0]);
  const std::optional<std::vector<int64_t>> perm = permutation(node, x);
  return perm && x.fully_known() && moves_only_ones(*perm, x.shape());
}

// Rows 0, 1, ... of a dimension, all of them, are the elements as they lie: often the only row of a dimension of 1.
bool gathers_in_order(const Graph& graph, const Node& node) {
  if (node.op_type != "Gather") return false;
  const Value& x = graph.value(node.inputs[0]);
  const ConstantRef& indices = graph.value(node.inputs[1]).constant;
  if (!x.fully_known() || !indices) return false;
  const Result<GatherDesc> desc = read_gather(node, x.shape(), indices->shape);
  if (!desc.ok() || desc->count != desc->span.length) return false;
  const auto in_order = [&](const auto& rows) {
    for (int64_t i = 0; i < desc->count; ++i)
      if (rows[static_cast<size_t>(i)] != i && rows[static_cast<size_t>(i)] != i - desc->count) return false;
    return true;
  };
  if (indices->type == DataType::kInt64) return in_order(indices->as<int64_t>());
  return indices->type == DataType::kInt32 && in_order(indices->as<int32_t>());
}

// Parts that a Split made, all of them in order along the Concat's dimension, are the Split's input.
void join_parts(const Graph& graph, Node& concat, const FindProducer& producer) {
  const Value& y = graph.value(concat.outputs[0]);
  if (!y.has_rank) return;
  const auto rank = static_cast<int>(y.dims.size());
  const Result<int> axis = read_concat_axis(concat, rank);
  for (size_t i = 0; i < concat.inputs.size(); ++i) {
    const Node* split = producer(concat.inputs[i]);
    if (!split || split->op_type != "Split" || !split->domain.empty()) continue;
    const Result<int> split_axis = read_split_axis(*split, rank);
    if (!axis.ok() || !split_axis.ok() || *split_axis != *axis) continue;
    const size_t count = split->outputs.size();
    if (i + count > concat.inputs.size() ||
        !std::equal(split->outputs.begin(), split->outputs.end(), concat.inputs.begin() + static_cast<ptrdiff_t>(i)))
      continue;
    const auto first = concat.inputs.begin() + static_cast<ptrdiff_t>(i);
    *first = split->inputs[0];
    concat.inputs.erase(first + 1, first + static_cast<ptrdiff_t>(count));
  }
}

}  // namespace

ConstantRef known_from_shapes(const Graph& graph, const Node& node) {
  if (!node.domain.empty() || node.input(0) == kNoValue) return nullptr;
  if (node.outputs.size() != 1 || node.outputs[0] == kNoValue) return nullptr;
  const Value& x = graph.value(node.inputs[0]);
  if (!x.has_rank) return nullptr;
  if (node.op_type == "Shape") {
    const ShapeInterval interval = read_shape_interval(node, static_cast<int>(x.dims.size()));
    std::vector<int64_t> dims;
    for (size_t i = interval.begin; i < interval.end; ++i) {
      if (!x.dims[i].known()) return nullptr;
      dims.push_back(x.dims[i].value);
    }
    return make_int64_constant(dims);
  }
  if (node.op_type == "Size" && x.fully_known()) {
    Result<int64_t> count = x.shape().checked_element_count();
    if (!count.ok()) return nullptr;
    const int64_t value = *count;
    return make_int64_constant(std::span<const int64_t>(&value, 1), true);
  }
  return nullptr;
}

ConstantRef reshaped_constant(const Graph& graph, const Node& node) {
  if (!node.domain.empty() || node.input(0) == kNoValue) return nullptr;
  if (node.outputs.size() != 1 || node.outputs[0] == kNoValue) return nullptr;
  if (!is_one_of(node.op_type, {"Reshape", "Squeeze", "Unsqueeze", "Flatten", "Identity"})) return nullptr;
  const ConstantRef& source = graph.value(node.inputs[0]).constant;
  const Value& y = graph.value(node.outputs[0]);
  // Strings are held by value: a view of them would be a copy.
  if (!source || !source->strings.empty() || !y.fully_known()) return nullptr;
  if (y.shape() == source->shape) return source;
  auto view = std::make_shared<Constant>(*source);
  view->shape = y.shape();
  return view;
}

ConstantRef sliced_constant(const Graph& graph, const Node& node) {
  if (!node.domain.empty() || node.op_type != "Slice" || node.input(0) == kNoValue) return nullptr;
  if (node.outputs.size() != 1 || node.outputs[0] == kNoValue) return nullptr;
  const ConstantRef& source = graph.value(node.inputs[0]).constant;
  if (!source || !source->strings.empty() || data_type_size(source->type) == 0) return nullptr;
  const Result<SliceDesc> slice = read_slice(node, source->shape, constant_integers(graph, node));
  if (!slice.ok() || slice->output.element_count() == 0) return nullptr;
  // From the last axis on: one may be cut, and those before it have one element.
  const auto bytes = static_cast<int64_t>(data_type_size(source->type));
  int64_t offset = 0, inner = bytes;
  bool cut = false;
  for (int axis = source->shape.rank() - 1; axis >= 0; --axis) {
    const SliceRange& range = slice->ranges[axis];
    if (range.count > 1 && (cut || range.step != 1)) return nullptr;
    cut = cut || range.count != source->shape[axis];
    offset += range.start * inner;
    inner *= source->shape[axis];
  }
  const auto size_bytes = static_cast<size_t>(slice->output.element_count() * bytes);
  if (!source->in_file && size_bytes < source->size_bytes / 2) return nullptr;
  auto view = std::make_shared<Constant>(*source);
  view->shape = slice->output;
  const std::byte* const first = source->data.stored() + offset;
  if (reinterpret_cast<uintptr_t>(first) % static_cast<uintptr_t>(bytes) == 0) {
    view->data = first;
  } else {
    view->data = std::make_shared<const UnalignedBytes>(std::span(first, size_bytes), source->owner, source->in_file);
  }
  view->size_bytes = size_bytes;
  return view;
}

ValueId unchanged_input(const Graph& graph, const Node& node) {
  if (!node.domain.empty() || node.input(0) == kNoValue || node.outputs.empty() || node.outputs[0] == kNoValue)
    return kNoValue;
  const ValueId x_id = node.inputs[0];
  const Value& x = graph.value(x_id);
  const Value& y = graph.value(node.outputs[0]);
  const std::string_view op = node.op_type;
  if (op == "Identity") return x_id;
  if (op == "Dropout") {
    if (node.outputs.size() > 1 && node.outputs[1] != kNoValue) return kNoValue;
    if (node.input(2) == kNoValue) return x_id;
    const ConstantRef& training = graph.value(node.inputs[2]).constant;
    return training && training->size_bytes == 1 && training->data[0] == std::byte{0} ? x_id : kNoValue;
  }
  if (is_one_of(op, {"Max", "Min", "Sum", "Mean", "Concat"})) return node.inputs.size() == 1 ? x_id : kNoValue;
  if (is_one_of(op, {"Cast", "CastLike"})) {
    return x.type == y.type && x.type != DataType::kUndefined ? x_id : kNoValue;
  }
  if (op == "Split") return node.outputs.size() == 1 ? x_id : kNoValue;
  if (is_one_of(op, {"Add", "Mul"}) && node.inputs.size() == 2) {
    const double neutral = op == "Add" ? 0 : 1;
    for (size_t i = 0; i < 2; ++i) {
      if (!every_element_is(graph.value(node.inputs[i]).constant, neutral)) continue;
      if (same_type_and_dims(graph.value(node.inputs[1 - i]), y)) return node.inputs[1 - i];
    }
    return kNoValue;
  }
  if (op == "Transpose") {
    const std::optional<std::vector<int64_t>> perm = permutation(node, x);
    return perm && std::is_sorted(perm->begin(), perm->end()) ? x_id : kNoValue;
  }
  if (op == "Pad") {
    const ValueId input = node.input(1);
    std::optional<std::vector<int64_t>> pads;
    if (has_pad_attributes(node)) {
      pads.emplace(pad_attribute(node).begin(), pad_attribute(node).end());
    } else {
      pads = integers_of(input == kNoValue ? nullptr : graph.value(input).constant.get());
    }
    const bool none = pads && std::all_of(pads->begin(), pads->end(), [](int64_t pad) { return pad == 0; });
    return none ? x_id : kNoValue;
  }
  if (!same_type_and_dims(x, y)) return kNoValue;
  if (is_one_of(op, {"Reshape", "Squeeze", "Unsqueeze", "Flatten", "Expand", "Tile"})) return x_id;
  if (is_one_of(op, {"Sub", "Div", "Pow"}) && node.inputs.size() == 2)
    return every_element_is(graph.value(node.inputs[1]).constant, op == "Sub" ? 0 : 1) ? x_id : kNoValue;
  if (op == "Slice") {
    if (node.input(4) == kNoValue) return x_id;
    const ConstantRef& steps = graph.value(node.inputs[4]).constant;
    return every_element_is(steps, 1) ? x_id : kNoValue;
  }
  return kNoValue;
}

void simplify(Graph& graph, Node& node, const FindProducer& producer) {
  if (!node.domain.empty() || node.input(0) == kNoValue || node.outputs.empty() || node.outputs[0] == kNoValue) return;
  const std::string_view op = node.op_type;
  const bool known = graph.value(node.outputs[0]).fully_known();
  if (op == "Concat") return join_parts(graph, node, producer);
  if (op == "Transpose") {
    if (const Node* first = producer(node.inputs[0]); first && first->op_type == "Transpose" && first->domain.empty()) {
      const Value& x = graph.value(first->inputs[0]);
      const std::optional<std::vector<int64_t>> inner = permutation(*first, x);
      std::optional<std::vector<int64_t>> outer = permutation(node, x);
      if (inner && outer) {
        for (int64_t& axis : *outer) axis = (*inner)[axis];
        node.inputs[0] = first->inputs[0];
        node.set_ints("perm", std::move(*outer));
      }
    }
    if (known && keeps_order(graph, node)) make_reshape(graph, node);
  } else if (known && (is_one_of(op, {"Squeeze", "Unsqueeze", "Flatten"}) || reduces_only_ones(graph, node) ||
                       gathers_in_order(graph, node))) {
    make_reshape(graph, node);
  }
  if (node.op_type != "Reshape" || !known) return;
  const Node* first = producer(node.inputs[0]);
  if (!first || first->op_type != "Reshape" || !first->domain.empty()) return;
  node.inputs[0] = first->inputs[0];
  make_reshape(graph, node);
}

}  // namespace tenon::fold_rules
