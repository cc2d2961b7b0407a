#include "ops/reshape.h"

#include <algorithm>
#include <utility>

#include "base/checked.h"
#include "ops/attributes.h"
#include "ops/axes.h"
#include "ops/shape_inference_context.h"

namespace tenon {

namespace {

Status check_rank(size_t rank) {
  TENON_UNSUPPORTED_IF(rank > Shape::kMaxRank,
                       "The target shape has rank {}; the highest rank that Tenon handles is {}.", rank,
                       Shape::kMaxRank);
  return {};
}

// The position of the -1; -1: there is none. Errors: a second one, a size below it.
Result<int> inferred_axis(std::span<const int64_t> target) {
  int inferred = -1;
  for (size_t i = 0; i < target.size(); ++i) {
    TENON_INVALID_IF(target[i] < -1, "The target shape contains {}.", target[i]);
    if (target[i] != -1) continue;
    TENON_INVALID_IF(inferred >= 0, "The target shape has more than one -1.");
    inferred = static_cast<int>(i);
  }
  return inferred;
}

}  // namespace

bool read_allow_zero(const Node& node) { return Attributes(node).flag("allowzero"); }

void write_reshape(Node& node, ValueId x, ValueId shape) {
  node.op_type = "Reshape";
  node.since_version = 14;
  node.inputs = {x, shape};
  node.attributes.clear();
  node.set_int("allowzero", 1);
}

Result<int> read_flatten_axis(const Node& node, int rank) {
  const int64_t axis = Attributes(node).integer("axis");
  TENON_INVALID_IF(axis < -rank || axis > rank, "Axis {} is out of range for rank {}.", axis, rank);
  return static_cast<int>(axis < 0 ? axis + rank : axis);
}

std::span<const int64_t> squeeze_axes_attribute(const Node& node) { return Attributes(node).integers("axes"); }

Result<std::vector<int64_t>> read_squeeze_axes(const Node& node, const ReadIntegers& integers) {
  if (node.input(1) != kNoValue) return integers(1);
  const std::span<const int64_t> axes = squeeze_axes_attribute(node);
  return std::vector<int64_t>(axes.begin(), axes.end());
}

Result<Shape> reshaped(const Shape& x, std::span<const int64_t> target, bool allow_zero) {
  TENON_TRY(check_rank(target.size()));
  TENON_TRY_ASSIGN(const int inferred, inferred_axis(target));
  Shape out;
  // The dimensions that the -1 stands for: those that are copied cancel, so that one of them may be 0.
  Shape source = x, rest;
  for (int d = 0; d < static_cast<int>(target.size()); ++d) {
    int64_t size = target[d];
    const bool copied = size == 0 && !allow_zero;
    if (copied) {
      TENON_INVALID_IF(d >= x.rank(), "The target shape copies dimension {} of an input of shape {}.", d,
                       x.to_string());
      size = x[d];
      source[d] = 1;
    }
    out.push_back(d == inferred ? 1 : size);
    rest.push_back(d == inferred || copied ? 1 : size);
  }
  const std::optional<int64_t> product = checked_product(out.dims());
  TENON_INVALID_IF(!product, "The target shape {} has too many elements.", Shape(target).to_string());
  int64_t count = x.element_count(), known = *product;
  if (inferred >= 0) {
    TENON_TRY_ASSIGN(count, source.checked_element_count());
    TENON_TRY_ASSIGN(known, rest.checked_element_count());
    TENON_INVALID_IF(known == 0, "The -1 of the target shape {} is undefined beside a 0.", Shape(target).to_string());
    out[inferred] = count / known;
    known *= out[inferred];
  }
  TENON_INVALID_IF(known != count, "An input of shape {} ({} elements) does not reshape to {}.", x.to_string(), count,
                   Shape(target).to_string());
  return out;
}

Result<Shape> flattened(const Shape& x, int axis) {
  const size_t split = axis;
  const std::optional<int64_t> outer = checked_product(x.dims().first(split)),
                               inner = checked_product(x.dims().subspan(split));
  TENON_INVALID_IF(!outer || !inner, "The dimensions of {} have a product that overflows.", x.to_string());
  return Shape{*outer, *inner};
}

Result<Shape> squeezed(const Shape& x, std::span<const int64_t> axes) {
  TENON_TRY_ASSIGN(const AxisSet dropped, axis_set(axes, x.rank()));
  Shape out;
  for (int d = 0; d < x.rank(); ++d) {
    const bool named = dropped.test(d);
    TENON_INVALID_IF(named && x[d] != 1, "Dimension {} of {} is not 1 and cannot be squeezed.", d, x.to_string());
    if (axes.empty() ? x[d] != 1 : !named) out.push_back(x[d]);
  }
  return out;
}

Result<Shape> unsqueezed(const Shape& x, std::span<const int64_t> axes) {
  TENON_TRY(check_rank(x.rank() + axes.size()));
  const int rank = x.rank() + static_cast<int>(axes.size());
  TENON_TRY_ASSIGN(const AxisSet added, axis_set(axes, rank));
  Shape out;
  for (int d = 0, from = 0; d < rank; ++d) out.push_back(added.test(d) ? 1 : x[from++]);
  return out;
}

Result<Shape> tiled(const Shape& x, std::span<const int64_t> repeats) {
  TENON_INVALID_IF(std::ssize(repeats) != x.rank(), "There are {} repeats for an input of shape {}.", repeats.size(),
                   x.to_string());
  Shape out = x;
  for (int d = 0; d < x.rank(); ++d) {
    const int64_t repeat = repeats[d];
    TENON_INVALID_IF(repeat < 0 || __builtin_mul_overflow(x[d], repeat, &out[d]),
                     "Dimension {} of {} times {} is no size.", d, x.to_string(), repeat);
  }
  return out;
}

namespace infer {
namespace {

// The dimension that -1 stands for: `source` has those of the input that no copied one cancels, `rest` the known ones
// of the target.
Result<Dim> inferred_dim(const Dims& source, const Dims& rest, const Context& c, const Dims& target) {
  TENON_TRY_ASSIGN(Dim total, product(source));
  TENON_TRY_ASSIGN(const Dim known, product(rest));
  if (total.known() && known.value > 0) {
    TENON_INVALID_IF(total.value % known.value != 0, "An input of shape {} does not reshape to {}.", text(c.dims(0)),
                     text(target));
    return number(total.value / known.value);
  }
  if (!total.known() && known.value == 1) return total;
  if (known.value == 0) {
    TENON_INVALID_IF(total.known(), "The -1 of the target shape {} is undefined beside a 0.", text(target));
    return Dim{};
  }
  // [S, 12, 32] to [-1, 384] with S unknown: the known factors cancel and the symbol stays.
  Dims unknown, numbers;
  for (const Dim& dim : source) (dim.known() ? numbers : unknown).push_back(dim);
  TENON_TRY_ASSIGN(const Dim factor, product(numbers));
  return unknown.size() == 1 && factor.value == known.value ? unknown[0] : Dim{};
}

Status infer_reshape(Context& c) {
  c.set_type(0, c.type(0));
  const std::optional<std::vector<int64_t>> target = c.values(1);
  if (!target) {
    const std::optional<int64_t> rank = c.length(1);
    return rank ? c.set_unknown_dims(*rank) : Status();
  }
  TENON_TRY(check_rank(target->size()));
  TENON_TRY_ASSIGN(const int inferred, inferred_axis(*target));
  const bool allow_zero = read_allow_zero(c.node());
  Dims out(target->size());
  // Dimensions of input and output that certainly cancel while one seeks the -1 (copied zeros), else compare products.
  std::vector<bool> cancelled(c.ranked(0) ? c.dims(0).size() : 0, false);
  bool all_known = true;
  for (size_t i = 0; i < target->size(); ++i) {
    const int64_t value = (*target)[i];
    if (value == -1) continue;
    if (value == 0 && !allow_zero) {
      if (!c.ranked(0)) {
        all_known = false;
        continue;
      }
      TENON_INVALID_IF(i >= c.dims(0).size(), "The target shape copies dimension {} of an input of shape {}.", i,
                       text(c.dims(0)));
      out[i] = c.dims(0)[i];
      if (!out[i].known() || (out[i].value == 0 && inferred >= 0)) cancelled[i] = true;
      continue;
    }
    out[i] = number(value);
  }
  if (!c.ranked(0)) return c.set_dims(0, std::move(out));
  Dims source, rest;
  for (size_t i = 0; i < c.dims(0).size(); ++i)
    if (!cancelled[i]) source.push_back(c.dims(0)[i]);
  for (size_t i = 0; i < out.size(); ++i)
    if (static_cast<int>(i) != inferred && out[i].known() && !(i < cancelled.size() && cancelled[i]))
      rest.push_back(out[i]);
  if (inferred >= 0) {
    TENON_TRY_ASSIGN(out[inferred], inferred_dim(source, rest, c, out));
    return c.set_dims(0, std::move(out));
  }
  TENON_TRY_ASSIGN(const Dim total, product(source));
  TENON_TRY_ASSIGN(const Dim known, product(rest));
  TENON_INVALID_IF(all_known && total.known() && total.value != known.value,
                   "An input of shape {} ({} elements) does not reshape to {} ({}).", text(c.dims(0)), total.value,
                   text(out), known.value);
  return c.set_dims(0, std::move(out));
}

Status infer_flatten(Context& c) {
  c.set_type(0, c.type(0));
  if (!c.ranked(0)) return c.set_unknown_dims(2);
  TENON_TRY_ASSIGN(const int axis, read_flatten_axis(c.node(), c.rank(0)));
  const std::span<const Dim> dims = c.dims(0);
  TENON_TRY_ASSIGN(Dim outer, product(dims.first(axis)));
  TENON_TRY_ASSIGN(Dim inner, product(dims.subspan(axis)));
  return c.set_dims(0, {outer, inner});
}

// nullopt: only known at run time.
std::optional<std::vector<int64_t>> squeeze_axes(const Context& c) {
  if (c.has(1)) return c.values(1);
  const std::span<const int64_t> axes = squeeze_axes_attribute(c.node());
  return std::vector<int64_t>(axes.begin(), axes.end());
}

Status infer_squeeze(Context& c) {
  c.set_type(0, c.type(0));
  if (!c.ranked(0)) return {};
  std::optional<std::vector<int64_t>> axes = squeeze_axes(c);
  if (!axes) {
    const std::optional<int64_t> count = c.length(1);
    if (count && *count > 0) return *count <= c.rank(0) ? c.set_unknown_dims(c.rank(0) - *count) : Status();
    if (!count) return {};
    axes.emplace();
  }
  TENON_TRY_ASSIGN(const AxisSet dropped, axis_set(*axes, c.rank(0)));
  Dims out;
  for (size_t i = 0; i < c.dims(0).size(); ++i) {
    const Dim& dim = c.dims(0)[i];
    if (axes->empty()) {
      if (!dim.known()) return {};
      if (dim.value != 1) out.push_back(dim);
    } else if (!dropped.test(i)) {
      out.push_back(dim);
    } else {
      TENON_INVALID_IF(dim.known() && dim.value != 1, "Dimension {} of {} is not 1 and cannot be squeezed.", i,
                       text(c.dims(0)));
    }
  }
  return c.set_dims(0, std::move(out));
}

Status infer_unsqueeze(Context& c) {
  c.set_type(0, c.type(0));
  if (!c.ranked(0)) return {};
  const std::optional<std::vector<int64_t>> axes = squeeze_axes(c);
  if (!axes) {
    const std::optional<int64_t> length = c.length(1);
    return length ? c.set_unknown_dims(c.rank(0) + std::min<int64_t>(*length, 1000)) : Status();
  }
  const size_t rank = c.dims(0).size() + axes->size();
  TENON_TRY(check_rank(rank));
  TENON_TRY_ASSIGN(const AxisSet added, axis_set(*axes, static_cast<int>(rank)));
  Dims out;
  for (size_t d = 0, from = 0; d < rank; ++d) out.push_back(added.test(d) ? number(1) : c.dims(0)[from++]);
  return c.set_dims(0, std::move(out));
}

Status infer_expand(Context& c) {
  c.set_type(0, c.type(0));
  if (!c.ranked(0)) return {};
  const std::optional<std::vector<int64_t>> target = c.values(1);
  if (!target) {
    const std::optional<int64_t> rank = c.length(1);
    if (!rank || *rank > Shape::kMaxRank) return {};
    // Dimensions above 1 stay whatever the target says.
    TENON_TRY_ASSIGN(Dims unknown, broadcast(c.dims(0), Dims(*rank)));
    return c.set_dims(0, std::move(unknown));
  }
  TENON_TRY_ASSIGN(Dims dims, known_dims(*target));
  TENON_TRY_ASSIGN(dims, broadcast(c.dims(0), dims));
  return c.set_dims(0, std::move(dims));
}

Status infer_tile(Context& c) {
  c.set_type(0, c.type(0));
  if (!c.ranked(0)) return {};
  const std::optional<std::vector<int64_t>> repeats = c.values(1);
  if (!repeats) return c.set_unknown_dims(c.rank(0));
  TENON_INVALID_IF(repeats->size() != c.dims(0).size(), "There are {} repeats for an input of shape {}.",
                   repeats->size(), text(c.dims(0)));
  Dims out = c.dims(0);
  for (size_t i = 0; i < out.size(); ++i) {
    const int64_t repeat = (*repeats)[i];
    TENON_INVALID_IF(repeat < 0, "The repeat {} is negative.", repeat);
    if (repeat == 1) continue;
    if (!out[i].known()) {
      out[i] = Dim{};
      continue;
    }
    const std::optional<int64_t> size = checked_mul(out[i].value, repeat);
    TENON_INVALID_IF(!size, "Dimension {} of {} times {} overflows.", i, text(c.dims(0)), repeat);
    out[i] = number(*size);
  }
  return c.set_dims(0, std::move(out));
}

constexpr Row kRows[] = {
    {"Expand", &infer_expand},   {"Flatten", &infer_flatten}, {"Reshape", &infer_reshape},
    {"Squeeze", &infer_squeeze}, {"Tile", &infer_tile},       {"Unsqueeze", &infer_unsqueeze},
};

}  // namespace

std::span<const Row> reshape_rows() { return kRows; }

}  // namespace infer
}  // namespace tenon
