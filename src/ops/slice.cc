#include "ops/slice.h"

#include <algorithm>
#include <limits>
#include <utility>
#include <vector>

#include "ops/attributes.h"
#include "ops/axes.h"
#include "ops/shape_inference_context.h"

namespace tenon {

Result<SliceRange> slice_range(int64_t start, int64_t end, int64_t step, int64_t size) {
  TENON_INVALID_IF(step == 0, "Slice has a step of 0.");
  if (step == std::numeric_limits<int64_t>::min()) ++step;  // so that -step exists
  const bool whole = end == std::numeric_limits<int32_t>::max() || end == std::numeric_limits<int64_t>::max();
  if (start < 0) start += size;
  if (end < 0) end += size;
  SliceRange range{0, step, 0};
  if (step > 0) {
    start = std::clamp<int64_t>(start, 0, size);
    end = std::clamp<int64_t>(end, 0, size);
    if (start < end) range.count = 1 + (end - start - 1) / step;
  } else {
    start = std::min(std::max<int64_t>(start, 0), size - 1);
    end = whole ? -1 : std::clamp<int64_t>(end, -1, std::max<int64_t>(size - 1, -1));
    if (start > end) range.count = 1 + (start - end - 1) / -step;
  }
  range.start = range.count > 0 ? start : 0;
  return range;
}

bool has_slice_attributes(const Node& node) { return node.since_version < 10; }

SliceBounds slice_attributes(const Node& node) {
  const Attributes attributes(node);
  SliceBounds bounds{
      .starts = attributes.integers("starts"), .ends = attributes.integers("ends"), .axes = {}, .steps = {}};
  if (attributes.has("axes")) bounds.axes = attributes.integers("axes");
  return bounds;
}

namespace {

Status check_counts(size_t starts, size_t ends, size_t axes, size_t steps) {
  TENON_INVALID_IF(ends != starts || axes != starts || steps != starts,
                   "There are {} starts, {} ends, {} axes and {} steps.", starts, ends, axes, steps);
  return {};
}

}  // namespace

Result<SliceDesc> resolve_slice(const Shape& x, const SliceBounds& bounds) {
  const size_t count = bounds.starts.size();
  TENON_TRY(check_counts(count, bounds.ends.size(), bounds.axes ? bounds.axes->size() : count,
                         bounds.steps ? bounds.steps->size() : count));
  SliceDesc desc{.ranges = {}, .output = x};
  for (int d = 0; d < x.rank(); ++d) desc.ranges[d].count = x[d];
  AxisSet sliced;
  for (size_t i = 0; i < count; ++i) {
    const int64_t named = bounds.axes ? (*bounds.axes)[i] : static_cast<int64_t>(i);
    TENON_TRY_ASSIGN(const int axis, add_axis(sliced, named, x.rank()));
    const int64_t step = bounds.steps ? (*bounds.steps)[i] : 1;
    TENON_INVALID_IF(step == 0, "The step of axis {} is 0.", axis);
    TENON_TRY_ASSIGN(const SliceRange range, slice_range(bounds.starts[i], bounds.ends[i], step, x[axis]));
    desc.ranges[axis] = range;
    desc.output[axis] = range.count;
  }
  return desc;
}

Result<SliceDesc> read_slice(const Node& node, const Shape& x, const ReadIntegers& integers) {
  if (has_slice_attributes(node)) return resolve_slice(x, slice_attributes(node));
  std::array<std::vector<int64_t>, 4> lists;
  SliceBounds bounds;
  TENON_TRY_ASSIGN(lists[0], integers(1));
  TENON_TRY_ASSIGN(lists[1], integers(2));
  bounds.starts = lists[0];
  bounds.ends = lists[1];
  if (node.input(3) != kNoValue) {
    TENON_TRY_ASSIGN(lists[2], integers(3));
    bounds.axes = lists[2];
  }
  if (node.input(4) != kNoValue) {
    TENON_TRY_ASSIGN(lists[3], integers(4));
    bounds.steps = lists[3];
  }
  return resolve_slice(x, bounds);
}

namespace infer {
namespace {

Status infer_slice(Context& c) {
  c.set_type(0, c.type(0));
  if (!c.ranked(0)) return {};
  std::optional<std::vector<int64_t>> starts, ends, axes, steps;
  const bool attributes = has_slice_attributes(c.node());
  if (attributes) {
    const SliceBounds bounds = slice_attributes(c.node());
    starts.emplace(bounds.starts.begin(), bounds.starts.end());
    ends.emplace(bounds.ends.begin(), bounds.ends.end());
    if (bounds.axes) axes.emplace(bounds.axes->begin(), bounds.axes->end());
  } else {
    starts = c.values(1), ends = c.values(2), axes = c.values(3), steps = c.values(4);
    if (c.has(3) && !axes) return c.set_dims(0, Dims(c.dims(0).size()));
  }
  if (!axes) {
    const std::optional<int64_t> count = starts ? std::optional(static_cast<int64_t>(starts->size())) : c.length(1);
    axes.emplace();
    for (int64_t i = 0; i < count.value_or(c.rank(0)) && i < c.rank(0); ++i) axes->push_back(i);
  }
  const auto length = [&](const std::optional<std::vector<int64_t>>& list) {
    return list ? list->size() : axes->size();
  };
  TENON_TRY(check_counts(length(starts), length(ends), axes->size(), length(steps)));
  const bool known = starts && ends && (steps || attributes || !c.has(4));
  Dims out = c.dims(0);
  AxisSet sliced;
  for (size_t i = 0; i < axes->size(); ++i) {
    TENON_TRY_ASSIGN(const int axis, add_axis(sliced, (*axes)[i], c.rank(0)));
    Dim& dim = out[axis];
    if (!known) {
      dim = Dim{};
      continue;
    }
    const int64_t start = (*starts)[i], end = (*ends)[i], step = steps ? (*steps)[i] : 1;
    TENON_INVALID_IF(step == 0, "The step of axis {} is 0.", axis);
    TENON_TRY_ASSIGN(const SliceRange range, slice_range(start, end, step, dim.known() ? dim.value : 0));
    if (dim.known()) {
      dim = number(range.count);
    } else if (step != 1 || start != 0 || end < std::numeric_limits<int32_t>::max()) {
      dim = Dim{};
    }
  }
  return c.set_dims(0, std::move(out));
}

constexpr Row kRows[] = {{"Slice", &infer_slice}};

}  // namespace

std::span<const Row> slice_rows() { return kRows; }

}  // namespace infer
}  // namespace tenon
