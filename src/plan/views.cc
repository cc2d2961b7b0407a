#include "plan/views.h"

#include <algorithm>

#include "ops/concat.h"
#include "ops/gather.h"
#include "ops/reorder.h"
#include "ops/slice.h"
#include "ops/split.h"
#include "ops/transpose.h"

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

// Bytes of one step along `axis`, all dimensions before it being 1.
size_t stride_bytes(const TensorSpec& whole, int axis) {
  size_t bytes = data_type_size(whole.type);
  for (int i = axis + 1; i < whole.shape.rank(); ++i) bytes *= whole.shape[i];
  return bytes;
}

bool is_whole_view(const Node& node, const TensorSpec& input, const TensorSpec& output) {
  if (node.domain == "tenon") {
    // One position a channel: blocked and plain are the same bytes.
    if (!is_reorder(node) || input.shape.rank() < 3 || input.shape[1] % 8 != 0) return false;
    const auto reorder = read_reorder(node);
    if (!reorder.ok() || reorder->channels_last) return false;
    return std::all_of(input.shape.begin() + 2, input.shape.end(), [](int64_t dim) { return dim == 1; });
  }
  if (!node.domain.empty()) return false;
  if (node.op_type == "Identity") return input.layout == output.layout && input.shape == output.shape;
  if (input.layout != Layout::kPlain || output.layout != Layout::kPlain) return false;
  if (node.op_type == "Transpose") {
    const auto perm = read_perm(node, input.shape.rank());
    return perm.ok() && moves_only_ones(*perm, input.shape);
  }
  if (node.op_type == "Expand") return input.shape == output.shape;
  return node.op_type == "Reshape" || node.op_type == "Squeeze" || node.op_type == "Unsqueeze" ||
         node.op_type == "Flatten";
}

std::vector<size_t> split_offsets(const Graph& graph, const Node& node, const TensorSpec& input) {
  const Result<int> axis = read_split_axis(node, input.shape.rank());
  if (!axis.ok() || !contiguous_along(input, *axis)) return {};
  std::vector<size_t> offsets;
  size_t offset = 0;
  for (ValueId id : node.outputs) {
    if (id == kNoValue) return {};
    const TensorSpec part = spec_of(graph.value(id));
    if (part.layout != input.layout || !whole_blocks(part)) return {};
    offsets.push_back(offset);
    offset += part.shape[*axis] * stride_bytes(input, *axis);
  }
  return offsets;
}

std::vector<size_t> slice_offsets(const Graph& graph, const Node& node, const TensorSpec& input,
                                  const TensorSpec& output) {
  if (output.layout != input.layout || output.shape.rank() != input.shape.rank()) return {};
  const Result<SliceDesc> slice = read_slice(node, input.shape, constant_integers(graph, node));
  if (!slice.ok() || slice->output != output.shape) return {};
  size_t offset = 0;
  int sliced = -1;
  for (int axis = 0; axis < input.shape.rank(); ++axis) {
    const SliceRange& range = slice->ranges[axis];
    if (range.count > 1 && range.step != 1) return {};
    if (range.count == input.shape[axis]) continue;
    if (sliced >= 0) return {};
    sliced = axis;
    offset = range.start * stride_bytes(input, axis);
    if (input.layout == Layout::kBlocked8 && (range.start % 8 != 0 || !whole_blocks(output))) return {};
  }
  if (sliced >= 0 && !contiguous_along(input, sliced)) return {};
  return {offset};
}

std::vector<size_t> gather_offsets(const Graph& graph, const Node& node, const TensorSpec& input) {
  const ValueId id = node.input(1);
  const auto indices = integers_of(id == kNoValue ? nullptr : graph.value(id).constant.get());
  if (input.layout != Layout::kPlain || !indices || indices->size() != 1) return {};
  const Result<int> axis = read_gather_axis(node, input.shape.rank());
  if (!axis.ok() || !contiguous_along(input, *axis)) return {};
  const int64_t size = input.shape[*axis], index = (*indices)[0] < 0 ? (*indices)[0] + size : (*indices)[0];
  if (index < 0 || index >= size) return {};
  return {index * stride_bytes(input, *axis)};
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
  // A target that only the run knows may not fit the input: the kernel looks.
  if (node.op_type == "Expand" && (node.input(1) == kNoValue || graph.value(node.inputs[1]).constant == nullptr))
    return {};
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
  const Result<int> axis = read_concat_axis(node, whole.shape.rank());
  if (!axis.ok() || !contiguous_along(whole, *axis)) return {};
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
