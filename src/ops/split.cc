#include "ops/split.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "base/checked.h"
#include "ops/attributes.h"
#include "ops/shape_inference_context.h"

namespace tenon {
namespace {

Result<int64_t> checked_sum(std::span<const int64_t> sizes, size_t parts) {
  TENON_INVALID_IF(sizes.size() != parts, "There are {} split sizes for {} outputs.", sizes.size(), parts);
  int64_t sum = 0;
  for (int64_t size : sizes) {
    const std::optional<int64_t> next = checked_add(sum, size);
    TENON_INVALID_IF(size < 0 || !next, "The split size {} is out of range.", size);
    sum = *next;
  }
  return sum;
}

// Parts of an axis of `length` where the node has no sizes.
Result<std::vector<int64_t>> equal_parts(const Node& node, int64_t length) {
  const auto count = static_cast<int64_t>(node.outputs.size());
  const std::optional<int64_t> stated = Attributes(node).find_integer("num_outputs");
  TENON_INVALID_IF(count < 1 || stated.value_or(count) != count, "Attribute \"num_outputs\" is {} for {} outputs.",
                   stated.value_or(count), count);
  TENON_INVALID_IF(!stated && length % count != 0, "An axis of {} does not split into {} equal parts.", length, count);
  const int64_t part = length / count + (length % count != 0 ? 1 : 0);
  std::vector<int64_t> sizes;
  for (int64_t i = 0, rest = length; i < count; ++i) {
    sizes.push_back(std::min(part, rest));
    rest -= sizes.back();
  }
  return sizes;
}

}  // namespace

Result<int> read_split_axis(const Node& node, int rank) {
  return normalized_axis(Attributes(node).integer("axis"), rank);
}

Status check_split_sizes(std::span<const int64_t> sizes, size_t parts, int64_t length) {
  TENON_TRY_ASSIGN(const int64_t sum, checked_sum(sizes, parts));
  TENON_INVALID_IF(sum != length, "The split sizes sum to {} for an axis of {}.", sum, length);
  return {};
}

Result<SplitDesc> read_split(const Node& node, const Shape& x) {
  TENON_TRY_ASSIGN(const int axis, read_split_axis(node, x.rank()));
  SplitDesc desc{.span = axis_span(x, axis), .sizes = {}};
  if (node.input(1) != kNoValue) return desc;
  if (const std::span<const int64_t> sizes = Attributes(node).integers("split"); !sizes.empty()) {
    TENON_TRY(check_split_sizes(sizes, node.outputs.size(), desc.span.length));
    desc.sizes.assign(sizes.begin(), sizes.end());
    return desc;
  }
  TENON_TRY_ASSIGN(desc.sizes, equal_parts(node, desc.span.length));
  return desc;
}

namespace infer {
namespace {

Status infer_split(Context& c) {
  const size_t count = c.node().outputs.size();
  for (size_t i = 0; i < count; ++i) c.set_type(i, c.type(0));
  if (!c.ranked(0)) return {};
  TENON_TRY_ASSIGN(const int axis, read_split_axis(c.node(), c.rank(0)));
  const Dim& whole = c.dims(0)[axis];
  std::optional<std::vector<int64_t>> sizes = c.values(1);
  // An empty list is none: the parts are equal.
  const bool stated = c.has(1) && !(sizes && sizes->empty());
  if (!stated) sizes.reset();
  if (const std::span<const int64_t> attribute = Attributes(c.node()).integers("split"); !attribute.empty())
    sizes.emplace(attribute.begin(), attribute.end());
  if (sizes) {
    TENON_TRY_ASSIGN(const int64_t sum, checked_sum(*sizes, count));
    TENON_INVALID_IF(whole.known() && sum != whole.value, "The split sizes sum to {}; dimension {} of {} has {}.", sum,
                     axis, text(c.dims(0)), whole.value);
  } else if (!stated && whole.known()) {
    TENON_TRY_ASSIGN(sizes, equal_parts(c.node(), whole.value));
  }
  for (size_t i = 0; i < count; ++i) {
    Dims out = c.dims(0);
    out[axis] = sizes ? number((*sizes)[i]) : Dim{};
    TENON_TRY(c.set_dims(i, std::move(out)));
  }
  return {};
}

constexpr Row kRows[] = {{"Split", &infer_split}};

}  // namespace

std::span<const Row> split_rows() { return kRows; }

}  // namespace infer
}  // namespace tenon
