#include "plan/views.h"

#include <algorithm>
#include <limits>

namespace tenon {

namespace {

// True if a part along `axis` is contiguous: every dimension before it is 1, and whole blocks are taken if blocked.
bool contiguous_along(const TensorSpec& whole, int axis) {
  for (int i = 0; i < axis; ++i) {
    if (whole.shape[i] != 1) return false;
  }
  return whole.layout == Layout::kPlain || axis == 1;
}

bool whole_blocks(const TensorSpec& part) { return part.layout == Layout::kPlain || part.shape[1] % 8 == 0; }

int normalized_axis(int64_t axis, int rank) {
  const int64_t wrapped = axis < 0 ? axis + rank : axis;
  return wrapped >= 0 && wrapped < rank ? static_cast<int>(wrapped) : -1;
}

// Bytes of one step along `axis`, all dimensions before it being 1.
size_t stride_bytes(const TensorSpec& whole, int axis) {
  size_t bytes = data_type_size(whole.type);
  for (int i = axis + 1; i < whole.shape.rank(); ++i) bytes *= static_cast<size_t>(whole.shape[i]);
  return bytes;
}

bool moves_only_ones(const Node& node, const TensorSpec& input) {
  const auto perm = node.ints("perm");
  if (perm.size() != static_cast<size_t>(input.shape.rank())) return false;
  int64_t last = -1;
  for (int64_t axis : perm) {
    if (axis < 0 || axis >= input.shape.rank()) return false;
    if (input.shape[static_cast<int>(axis)] == 1) continue;
    if (axis < last) return false;
    last = axis;
  }
  return true;
}

bool is_whole_view(const Node& node, const TensorSpec& input, const TensorSpec& output) {
  if (node.domain == "tenon") {
    // One position a channel: blocked and plain are the same bytes.
    if (node.op_type != "Reorder" || input.shape.rank() < 3 || input.shape[1] % 8 != 0) return false;
    return std::all_of(input.shape.begin() + 2, input.shape.end(), [](int64_t dim) { return dim == 1; });
  }
  if (!node.domain.empty()) return false;
  if (node.op_type == "Identity") return input.layout == output.layout && input.shape == output.shape;
  if (input.layout != Layout::kPlain || output.layout != Layout::kPlain) return false;
  if (node.op_type == "Transpose") return moves_only_ones(node, input);
  if (node.op_type == "Expand") return input.shape == output.shape;
  return node.op_type == "Reshape" || node.op_type == "Squeeze" || node.op_type == "Unsqueeze" ||
         node.op_type == "Flatten";
}

std::vector<size_t> split_offsets(const Graph& graph, const Node& node, const TensorSpec& input) {
  const int axis = normalized_axis(node.int_or("axis", 0), input.shape.rank());
  if (axis < 0 || !contiguous_along(input, axis)) return {};
  std::vector<size_t> offsets;
  size_t offset = 0;
  for (ValueId id : node.outputs) {
    if (id == kNoValue) return {};
    const TensorSpec part = spec_of(graph.value(id));
    if (part.layout != input.layout || !whole_blocks(part)) return {};
    offsets.push_back(offset);
    offset += static_cast<size_t>(part.shape[axis]) * stride_bytes(input, axis);
  }
  return offsets;
}

// The int64 or int32 values of constant input `index`; false when it is absent or not constant.
bool constant_ints(const Graph& graph, const Node& node, size_t index, std::vector<int64_t>& values) {
  const ValueId id = node.input(index);
  if (id == kNoValue || !graph.value(id).constant) return false;
  const Constant& constant = *graph.value(id).constant;
  if (constant.type == DataType::kInt64) {
    const auto ints = constant.as<int64_t>();
    values.assign(ints.begin(), ints.end());
    return true;
  }
  if (constant.type == DataType::kInt32) {
    const auto ints = constant.as<int32_t>();
    values.assign(ints.begin(), ints.end());
    return true;
  }
  return false;
}

std::vector<size_t> slice_offsets(const Graph& graph, const Node& node, const TensorSpec& input,
                                  const TensorSpec& output) {
  if (output.layout != input.layout || output.shape.rank() != input.shape.rank()) return {};
  std::vector<int64_t> starts, axes, steps;
  if (node.inputs.size() > 1) {
    if (!constant_ints(graph, node, 1, starts)) return {};
    if (node.input(3) != kNoValue && !constant_ints(graph, node, 3, axes)) return {};
    if (node.input(4) != kNoValue && !constant_ints(graph, node, 4, steps)) return {};
  } else {
    starts.assign(node.ints("starts").begin(), node.ints("starts").end());
    axes.assign(node.ints("axes").begin(), node.ints("axes").end());
  }
  int sliced = -1;
  for (int i = 0; i < input.shape.rank(); ++i) {
    if (input.shape[i] == output.shape[i]) continue;
    if (sliced >= 0) return {};
    sliced = i;
  }
  size_t offset = 0;
  for (size_t i = 0; i < starts.size(); ++i) {
    if (!steps.empty() && (i >= steps.size() || steps[i] != 1)) return {};
    if (!axes.empty() && i >= axes.size()) return {};
    const int axis = normalized_axis(axes.empty() ? static_cast<int64_t>(i) : axes[i], input.shape.rank());
    if (axis < 0) return {};
    if (axis != sliced) continue;
    const int64_t dim = input.shape[axis];
    const int64_t start = std::clamp<int64_t>(starts[i] < 0 ? starts[i] + dim : starts[i], 0, dim);
    if (start + output.shape[axis] > dim) return {};
    offset = static_cast<size_t>(start) * stride_bytes(input, axis);
    if (input.layout == Layout::kBlocked8 && (start % 8 != 0 || !whole_blocks(output))) return {};
  }
  if (sliced >= 0 && !contiguous_along(input, sliced)) return {};
  return {offset};
}

std::vector<size_t> gather_offsets(const Graph& graph, const Node& node, const TensorSpec& input) {
  std::vector<int64_t> indices;
  if (input.layout != Layout::kPlain || !constant_ints(graph, node, 1, indices) || indices.size() != 1) return {};
  const int axis = normalized_axis(node.int_or("axis", 0), input.shape.rank());
  if (axis < 0 || !contiguous_along(input, axis)) return {};
  const int64_t index = indices[0] < 0 ? indices[0] + input.shape[axis] : indices[0];
  if (index < 0 || index >= input.shape[axis]) return {};
  return {static_cast<size_t>(index) * stride_bytes(input, axis)};
}

}  // namespace

TensorSpec spec_of(const Value& value) {
  TensorSpec spec;
  spec.type = value.type;
  spec.layout = value.layout;
  if (value.fully_known()) {
    spec.shape = value.shape();
  } else {
    spec.dynamic = true;
  }
  return spec;
}

std::vector<size_t> view_offsets(const Graph& graph, const Node& node) {
  if (node.input(0) == kNoValue || node.outputs.empty() || node.outputs[0] == kNoValue) return {};
  const TensorSpec input = spec_of(graph.value(node.inputs[0]));
  const TensorSpec output = spec_of(graph.value(node.outputs[0]));
  if (input.dynamic || output.dynamic || data_type_size(input.type) == 0 || input.type != output.type) return {};
  if (is_whole_view(node, input, output)) {
    return input.size_bytes() == output.size_bytes() ? std::vector<size_t>{0} : std::vector<size_t>{};
  }
  if (!node.domain.empty()) return {};
  if (node.op_type == "Split") return split_offsets(graph, node, input);
  if (node.outputs.size() != 1) return {};
  if (node.op_type == "Slice") return slice_offsets(graph, node, input, output);
  if (node.op_type == "Gather") return gather_offsets(graph, node, input);
  return {};
}

std::vector<size_t> concat_offsets(const Graph& graph, const Node& node) {
  if (!node.domain.empty() || node.op_type != "Concat" || node.outputs.size() != 1) return {};
  const TensorSpec whole = spec_of(graph.value(node.outputs[0]));
  if (whole.dynamic || data_type_size(whole.type) == 0) return {};
  const int axis = normalized_axis(node.int_or("axis", 0), whole.shape.rank());
  if (axis < 0 || !contiguous_along(whole, axis)) return {};
  std::vector<size_t> offsets;
  size_t offset = 0;
  for (ValueId id : node.inputs) {
    if (id == kNoValue) return {};
    const TensorSpec part = spec_of(graph.value(id));
    if (part.dynamic || part.layout != whole.layout || !whole_blocks(part)) return {};
    offsets.push_back(offset);
    offset += part.size_bytes();
  }
  return offset == whole.size_bytes() ? offsets : std::vector<size_t>{};
}

}  // namespace tenon
