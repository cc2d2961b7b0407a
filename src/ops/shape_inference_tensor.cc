// Operators that move, cut and join: Reshape, Transpose, Concat, Split, Slice, Pad, Expand, Tile, Shape, ...
#include <algorithm>
#include <cmath>
#include <utility>

#include "base/checked.h"
#include "base/status.h"
#include "ops/shape_inference_context.h"

namespace tenon::infer {
namespace {

// A 1-D integer input tells the rank by its length even while its values are unknown.
std::optional<int64_t> length_of(const Context& c, size_t input) {
  if (!c.ranked(input) || c.rank(input) != 1 || !c.dims(input)[0].known()) return std::nullopt;
  return c.dims(input)[0].value;
}

Status set_unknown_dims(Context& c, int64_t rank) {
  TENON_UNSUPPORTED_IF(rank > Shape::kMaxRank, "Output 0 has rank {}; the highest rank that Tenon handles is {}.", rank,
                       Shape::kMaxRank);
  return c.set_dims(0, Dims(static_cast<size_t>(rank)));
}

// Axes from attribute "axes" or, when absent, from input `input`. nullopt: only known at run time.
Result<std::optional<std::vector<int64_t>>> read_axes(const Context& c, size_t input, int64_t rank) {
  std::optional<std::vector<int64_t>> axes;
  if (c.node().has("axes")) {
    std::span<const int64_t> attribute = c.node().ints("axes");
    axes.emplace(attribute.begin(), attribute.end());
  } else if (c.has(input)) {
    axes = c.values(input);
    if (!axes) return axes;
  } else {
    axes.emplace();
  }
  for (int64_t& axis : *axes) {
    TENON_TRY_ASSIGN(axis, c.axis(axis, rank));
  }
  std::vector<int64_t> sorted = *axes;
  std::sort(sorted.begin(), sorted.end());
  auto twice = std::adjacent_find(sorted.begin(), sorted.end());
  TENON_INVALID_IF(twice != sorted.end(), "Axis {} is repeated.", *twice);
  return axes;
}

Status infer_reshape(Context& c) {
  c.set_type(0, c.type(0));
  std::optional<std::vector<int64_t>> target = c.values(1);
  if (!target) {
    std::optional<int64_t> rank = length_of(c, 1);
    return rank ? set_unknown_dims(c, *rank) : Status();
  }
  TENON_UNSUPPORTED_IF(target->size() > static_cast<size_t>(Shape::kMaxRank),
                       "The target shape has rank {}; the highest rank that Tenon handles is {}.", target->size(),
                       Shape::kMaxRank);
  const bool allow_zero = c.node().int_or("allowzero", 0) != 0;
  Dims out(target->size());
  // Dimensions of input and output that certainly cancel while one seeks the -1 (copied zeros), else compare products.
  std::vector<bool> cancelled(c.ranked(0) ? c.dims(0).size() : 0, false);
  int64_t inferred = -1;
  bool all_known = true;
  for (size_t i = 0; i < target->size(); ++i) {
    int64_t value = (*target)[i];
    if (value == -1) {
      TENON_INVALID_IF(inferred >= 0, "The target shape has more than one -1.");
      inferred = static_cast<int64_t>(i);
      continue;
    }
    TENON_INVALID_IF(value < -1, "The target shape contains {}.", value);
    if (value == 0 && !allow_zero) {
      if (!c.ranked(0)) {
        all_known = false;
        continue;
      }
      TENON_INVALID_IF(i >= c.dims(0).size(), "The target shape copies dimension {} of an input of shape {}.", i,
                       text(c.dims(0)));
      out[i] = c.dims(0)[i];
      if (!out[i].known()) cancelled[i] = true;
      continue;
    }
    out[i] = number(value);
  }
  if (!c.ranked(0)) return c.set_dims(0, std::move(out));
  Dims source, rest;
  for (size_t i = 0; i < c.dims(0).size(); ++i)
    if (!cancelled[i]) source.push_back(c.dims(0)[i]);
  for (size_t i = 0; i < out.size(); ++i)
    if (static_cast<int64_t>(i) != inferred && out[i].known()) rest.push_back(out[i]);
  TENON_TRY_ASSIGN(Dim total, product(source));
  TENON_TRY_ASSIGN(Dim known, product(rest));
  if (inferred >= 0) {
    if (total.known() && known.value > 0) {
      TENON_INVALID_IF(total.value % known.value != 0, "An input of shape {} does not reshape to {}.", text(c.dims(0)),
                       text(out));
      out[static_cast<size_t>(inferred)] = number(total.value / known.value);
    } else if (!total.known() && known.value == 1) {
      out[static_cast<size_t>(inferred)] = total;
    } else if (known.value == 0) {
      TENON_INVALID_IF(total.known(), "The -1 of the target shape {} is undefined beside a 0.", text(out));
    } else if (!total.known()) {
      // [S, 12, 32] to [-1, 384] with S unknown: the known factors cancel and the symbol stays.
      Dims unknown, numbers;
      for (const Dim& dim : source) (dim.known() ? numbers : unknown).push_back(dim);
      TENON_TRY_ASSIGN(Dim factor, product(numbers));
      if (unknown.size() == 1 && factor.value == known.value) out[static_cast<size_t>(inferred)] = unknown[0];
    }
  } else if (all_known && total.known()) {
    TENON_INVALID_IF(total.value != known.value, "An input of shape {} ({} elements) does not reshape to {} ({}).",
                     text(c.dims(0)), total.value, text(out), known.value);
  }
  return c.set_dims(0, std::move(out));
}

Status infer_flatten(Context& c) {
  c.set_type(0, c.type(0));
  if (!c.ranked(0)) return set_unknown_dims(c, 2);
  int64_t rank = c.rank(0), axis = c.node().int_or("axis", 1);
  TENON_INVALID_IF(axis < -rank || axis > rank, "Axis {} is out of range for rank {}.", axis, rank);
  if (axis < 0) axis += rank;
  std::span<const Dim> dims = c.dims(0);
  TENON_TRY_ASSIGN(Dim outer, product(dims.first(static_cast<size_t>(axis))));
  TENON_TRY_ASSIGN(Dim inner, product(dims.subspan(static_cast<size_t>(axis))));
  return c.set_dims(0, {outer, inner});
}

Status infer_squeeze(Context& c) {
  c.set_type(0, c.type(0));
  if (!c.ranked(0)) return {};
  TENON_TRY_ASSIGN(std::optional<std::vector<int64_t>> axes, read_axes(c, 1, c.rank(0)));
  if (!axes) {
    std::optional<int64_t> count = length_of(c, 1);
    if (count && *count > 0) return *count <= c.rank(0) ? set_unknown_dims(c, c.rank(0) - *count) : Status();
    if (!count) return {};
    axes.emplace();
  }
  Dims out;
  const bool every = axes->empty();
  for (size_t i = 0; i < c.dims(0).size(); ++i) {
    const Dim& dim = c.dims(0)[i];
    if (every) {
      if (!dim.known()) return {};
      if (dim.value != 1) out.push_back(dim);
      continue;
    }
    if (std::find(axes->begin(), axes->end(), static_cast<int64_t>(i)) == axes->end()) {
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
  int64_t count = 0;
  if (c.node().has("axes")) {
    count = static_cast<int64_t>(c.node().ints("axes").size());
  } else if (std::optional<std::vector<int64_t>> axes = c.values(1)) {
    count = static_cast<int64_t>(axes->size());
  } else {
    std::optional<int64_t> length = length_of(c, 1);
    return length ? set_unknown_dims(c, c.rank(0) + std::min<int64_t>(*length, 1000)) : Status();
  }
  const int64_t rank = c.rank(0) + count;
  TENON_UNSUPPORTED_IF(rank > Shape::kMaxRank, "Output 0 has rank {}; the highest rank that Tenon handles is {}.", rank,
                       Shape::kMaxRank);
  TENON_TRY_ASSIGN(std::optional<std::vector<int64_t>> axes, read_axes(c, 1, rank));
  Dims out(static_cast<size_t>(rank));
  for (int64_t axis : *axes) out[static_cast<size_t>(axis)] = number(1);
  size_t next = 0;
  for (Dim& dim : out)
    if (dim.value != 1) dim = c.dims(0)[next++];
  return c.set_dims(0, std::move(out));
}

Status infer_transpose(Context& c) {
  c.set_type(0, c.type(0));
  if (!c.ranked(0)) return {};
  const size_t rank = c.dims(0).size();
  std::vector<int64_t> perm;
  if (c.node().has("perm")) {
    std::span<const int64_t> attribute = c.node().ints("perm");
    perm.assign(attribute.begin(), attribute.end());
  } else {
    for (size_t i = 0; i < rank; ++i) perm.push_back(static_cast<int64_t>(rank - 1 - i));
  }
  TENON_INVALID_IF(perm.size() != rank, "Attribute \"perm\" has {} values for an input of shape {}.", perm.size(),
                   text(c.dims(0)));
  Dims out(rank);
  std::vector<bool> seen(rank, false);
  for (size_t i = 0; i < rank; ++i) {
    int64_t from = perm[i];
    TENON_INVALID_IF(from < 0 || from >= static_cast<int64_t>(rank) || seen[static_cast<size_t>(from)],
                     "Attribute \"perm\" is no permutation: {} at position {}.", from, i);
    seen[static_cast<size_t>(from)] = true;
    out[i] = c.dims(0)[static_cast<size_t>(from)];
  }
  return c.set_dims(0, std::move(out));
}

Status infer_concat(Context& c) {
  c.set_type(0, c.type(0));
  const size_t count = c.node().inputs.size();
  for (size_t i = 0; i < count; ++i)
    if (!c.ranked(i)) return {};
  if (count == 0) return {};
  const size_t rank = c.dims(0).size();
  TENON_INVALID_IF(rank == 0, "Scalars cannot be concatenated.");
  TENON_TRY_ASSIGN(int64_t axis, c.axis_attribute(0, static_cast<int64_t>(rank)));
  Dims out = c.dims(0);
  for (size_t i = 1; i < count; ++i) {
    const Dims& dims = c.dims(i);
    TENON_INVALID_IF(dims.size() != rank, "Inputs 0 and {} have shapes {} and {} of different rank.", i,
                     text(c.dims(0)), text(dims));
    for (size_t d = 0; d < rank; ++d) {
      if (d == static_cast<size_t>(axis)) {
        if (out[d].known() && dims[d].known()) {
          std::optional<int64_t> sum = checked_add(out[d].value, dims[d].value);
          TENON_INVALID_IF(!sum, "The concatenated dimension overflows.");
          out[d] = number(*sum);
        } else {
          out[d] = Dim{};
        }
        continue;
      }
      TENON_INVALID_IF(out[d].known() && dims[d].known() && out[d].value != dims[d].value,
                       "Inputs 0 and {} have shapes {} and {}, which differ in dimension {} beside axis {}.", i,
                       text(c.dims(0)), text(dims), d, axis);
      if (!out[d].known() && (dims[d].known() || out[d].symbol.empty())) out[d] = dims[d];
    }
  }
  return c.set_dims(0, std::move(out));
}

Status infer_split(Context& c) {
  const size_t count = c.node().outputs.size();
  for (size_t i = 0; i < count; ++i) c.set_type(i, c.type(0));
  if (!c.ranked(0)) return {};
  TENON_TRY_ASSIGN(int64_t axis, c.axis_attribute(0, c.rank(0)));
  const Dim& whole = c.dims(0)[static_cast<size_t>(axis)];
  std::vector<Dim> parts(count);
  std::optional<std::vector<int64_t>> sizes;
  if (c.node().has("split")) {
    std::span<const int64_t> attribute = c.node().ints("split");
    sizes.emplace(attribute.begin(), attribute.end());
  } else if (c.has(1)) {
    sizes = c.values(1);
  }
  if (sizes) {
    TENON_INVALID_IF(sizes->size() != count, "There are {} split sizes for {} outputs.", sizes->size(), count);
    int64_t sum = 0;
    for (size_t i = 0; i < count; ++i) {
      int64_t size = (*sizes)[i];
      std::optional<int64_t> next = checked_add(sum, size);
      TENON_INVALID_IF(size < 0 || !next, "The split size {} is out of range.", size);
      sum = *next;
      parts[i] = number(size);
    }
    TENON_INVALID_IF(whole.known() && sum != whole.value, "The split sizes sum to {}; dimension {} of {} has {}.", sum,
                     axis, text(c.dims(0)), whole.value);
  } else if (!c.has(1) && whole.known()) {
    int64_t n = c.node().int_or("num_outputs", static_cast<int64_t>(count));
    TENON_INVALID_IF(n != static_cast<int64_t>(count) || n < 1, "Attribute \"num_outputs\" is {} for {} outputs.", n,
                     count);
    TENON_INVALID_IF(!c.node().has("num_outputs") && whole.value % n != 0,
                     "Dimension {} of {} does not split into {} equal parts.", axis, text(c.dims(0)), n);
    // From opset 18 on the last part may be smaller.
    int64_t chunk = whole.value / n + (whole.value % n != 0 ? 1 : 0);
    for (int64_t i = 0; i < n; ++i)
      parts[static_cast<size_t>(i)] = number(std::max<int64_t>(0, std::min(chunk, whole.value - i * chunk)));
  }
  for (size_t i = 0; i < count; ++i) {
    Dims out = c.dims(0);
    out[static_cast<size_t>(axis)] = parts[i];
    TENON_TRY(c.set_dims(i, std::move(out)));
  }
  return {};
}

// Elements that start:end:step selects of `size`. With a negative step the start is clamped to [0, size - 1], as the
// operator's text says, where numpy would select nothing for a start before the first element.
int64_t slice_length(int64_t size, int64_t start, int64_t end, int64_t step) {
  if (size == 0) return 0;
  auto clamp = [&](int64_t value, int64_t low, int64_t high) {
    if (value < 0) value = value < -size ? low - 1 : value + size;
    return std::clamp(value, low, high);
  };
  if (step > 0) {
    start = clamp(start, 0, size);
    end = clamp(end, 0, size);
    return end <= start ? 0 : (end - start - 1) / step + 1;
  }
  start = clamp(start, 0, size - 1);
  // -1 as an end means "before the first element" only after wrapping. The greatest integers mean the same: models use
  // them for "to the end", whichever way they go, and ONNX Runtime takes them so.
  end = end == INT32_MAX || end == INT64_MAX ? -1 : clamp(end, -1, size - 1);
  if (end >= start) return 0;
  if (step == INT64_MIN) return 1;
  return (start - end - 1) / -step + 1;
}

Status infer_slice(Context& c) {
  c.set_type(0, c.type(0));
  if (!c.ranked(0)) return {};
  Dims out = c.dims(0);
  std::optional<std::vector<int64_t>> starts, ends, axes, steps;
  const bool from_inputs = c.version() >= 10 || !c.node().has("starts");
  if (!from_inputs) {
    auto attribute = [&](const char* name) {
      std::span<const int64_t> values = c.node().ints(name);
      return std::vector<int64_t>(values.begin(), values.end());
    };
    starts = attribute("starts");
    ends = attribute("ends");
    if (c.node().has("axes")) axes = attribute("axes");
  } else {
    starts = c.values(1);
    ends = c.values(2);
    axes = c.values(3);
    steps = c.values(4);
  }
  const bool axes_given = from_inputs ? c.has(3) : axes.has_value();
  if (axes_given && !axes) {
    for (Dim& dim : out) dim = Dim{};
    return c.set_dims(0, std::move(out));
  }
  if (!axes) {
    std::optional<int64_t> count;
    if (starts) count = static_cast<int64_t>(starts->size());
    if (!count) count = length_of(c, 1);
    axes.emplace();
    for (int64_t i = 0; i < count.value_or(c.rank(0)) && i < c.rank(0); ++i) axes->push_back(i);
  }
  std::vector<bool> seen(out.size(), false);
  for (size_t i = 0; i < axes->size(); ++i) {
    TENON_TRY_ASSIGN(int64_t axis, c.axis((*axes)[i], c.rank(0)));
    TENON_INVALID_IF(seen[static_cast<size_t>(axis)], "Axis {} is repeated.", axis);
    seen[static_cast<size_t>(axis)] = true;
    TENON_INVALID_IF((starts && i >= starts->size()) || (ends && i >= ends->size()) || (steps && i >= steps->size()),
                     "There are more axes than starts, ends or steps.");
    Dim& dim = out[static_cast<size_t>(axis)];
    const bool steps_known = steps.has_value() || !c.has(4) || !from_inputs;
    if (!starts || !ends || !steps_known) {
      dim = Dim{};
      continue;
    }
    const int64_t step = steps ? (*steps)[i] : 1;
    TENON_INVALID_IF(step == 0, "The step of axis {} is 0.", axis);
    if (!dim.known()) {
      const bool whole = step == 1 && (*starts)[i] == 0 && (*ends)[i] >= INT32_MAX;
      if (!whole) dim = Dim{};
      continue;
    }
    dim = number(slice_length(dim.value, (*starts)[i], (*ends)[i], step));
  }
  TENON_INVALID_IF((starts && starts->size() != axes->size()) || (ends && ends->size() != axes->size()),
                   "There are {} starts, {} ends and {} axes.", starts ? starts->size() : axes->size(),
                   ends ? ends->size() : axes->size(), axes->size());
  return c.set_dims(0, std::move(out));
}

Status infer_pad(Context& c) {
  c.set_type(0, c.type(0));
  if (!c.ranked(0)) return {};
  std::optional<std::vector<int64_t>> pads;
  if (c.node().has("pads")) {
    std::span<const int64_t> attribute = c.node().ints("pads");
    pads.emplace(attribute.begin(), attribute.end());
  } else {
    pads = c.values(1);
  }
  std::vector<int64_t> axes;
  if (c.has(3)) {
    TENON_TRY_ASSIGN(std::optional<std::vector<int64_t>> given, read_axes(c, 3, c.rank(0)));
    if (!given) return set_unknown_dims(c, c.rank(0));
    axes = *given;
  } else {
    for (int64_t i = 0; i < c.rank(0); ++i) axes.push_back(i);
  }
  if (!pads) return set_unknown_dims(c, c.rank(0));
  TENON_INVALID_IF(pads->size() != 2 * axes.size(), "There are {} pads for {} axes.", pads->size(), axes.size());
  Dims out = c.dims(0);
  for (size_t i = 0; i < axes.size(); ++i) {
    Dim& dim = out[static_cast<size_t>(axes[i])];
    const int64_t before = (*pads)[i], after = (*pads)[i + axes.size()];
    if (before == 0 && after == 0) continue;
    if (!dim.known()) {
      dim = Dim{};
      continue;
    }
    std::optional<int64_t> sum = checked_add(before, after);
    if (sum) sum = checked_add(*sum, dim.value);
    TENON_INVALID_IF(!sum || *sum < 0, "Pads {} and {} do not fit dimension {} of {}.", before, after, axes[i],
                     text(c.dims(0)));
    dim = number(*sum);
  }
  return c.set_dims(0, std::move(out));
}

Result<Dims> dims_from(std::span<const int64_t> values) {
  Dims out;
  for (int64_t value : values) {
    TENON_INVALID_IF(value < 0, "The shape contains the negative dimension {}.", value);
    out.push_back(number(value));
  }
  return out;
}

Status infer_expand(Context& c) {
  c.set_type(0, c.type(0));
  if (!c.ranked(0)) return {};
  std::optional<std::vector<int64_t>> target = c.values(1);
  if (!target) {
    std::optional<int64_t> rank = length_of(c, 1);
    if (!rank || *rank > Shape::kMaxRank) return {};
    // Dimensions above 1 stay whatever the target says.
    TENON_TRY_ASSIGN(Dims unknown, broadcast(c.dims(0), Dims(static_cast<size_t>(*rank))));
    return c.set_dims(0, std::move(unknown));
  }
  TENON_TRY_ASSIGN(Dims dims, dims_from(*target));
  TENON_TRY_ASSIGN(dims, broadcast(c.dims(0), dims));
  return c.set_dims(0, std::move(dims));
}

Status infer_tile(Context& c) {
  c.set_type(0, c.type(0));
  if (!c.ranked(0)) return {};
  std::optional<std::vector<int64_t>> repeats = c.values(1);
  if (!repeats) return set_unknown_dims(c, c.rank(0));
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
    std::optional<int64_t> size = checked_mul(out[i].value, repeat);
    TENON_INVALID_IF(!size, "Dimension {} of {} times {} overflows.", i, text(c.dims(0)), repeat);
    out[i] = number(*size);
  }
  return c.set_dims(0, std::move(out));
}

Status infer_shape(Context& c) {
  c.set_type(0, DataType::kInt64);
  if (!c.ranked(0)) return c.set_dims(0, {Dim{}});
  const int64_t rank = c.rank(0);
  auto clamp = [rank](int64_t value) { return std::clamp<int64_t>(value < 0 ? value + rank : value, 0, rank); };
  const int64_t start = clamp(c.node().int_or("start", 0)), end = clamp(c.node().int_or("end", rank));
  return c.set_dims(0, {number(std::max<int64_t>(0, end - start))});
}

Status infer_size(Context& c) {
  c.set_type(0, DataType::kInt64);
  return c.set_dims(0, {});
}

Status infer_constant_of_shape(Context& c) {
  const Attribute* value = c.node().find("value");
  c.set_type(0, value && value->tensor ? value->tensor->type : DataType::kFloat);
  std::optional<std::vector<int64_t>> shape = c.values(0);
  if (!shape) {
    std::optional<int64_t> rank = length_of(c, 0);
    return rank ? set_unknown_dims(c, *rank) : Status();
  }
  TENON_TRY_ASSIGN(Dims dims, dims_from(*shape));
  return c.set_dims(0, std::move(dims));
}

Status infer_constant(Context& c) {
  const Attribute* value = c.node().find("value");
  if (!value || !value->tensor) return {};
  c.set_type(0, value->tensor->type);
  TENON_TRY_ASSIGN(Dims dims, dims_from(value->tensor->shape.dims()));
  return c.set_dims(0, std::move(dims));
}

Status infer_range(Context& c) {
  c.set_type(0, c.type(0));
  // int64 ranges beyond 2^53 would lose bits as doubles: count them exactly.
  if (c.type(0) == DataType::kInt64) {
    std::optional<std::vector<int64_t>> start = c.values(0), limit = c.values(1), delta = c.values(2);
    if (start && limit && delta && start->size() == 1 && limit->size() == 1 && delta->size() == 1) {
      const __int128 step = (*delta)[0], span = static_cast<__int128>((*limit)[0]) - (*start)[0];
      TENON_INVALID_IF(step == 0, "The step of the range is 0.");
      __int128 count = step > 0 ? (span + step - 1) / step : (span + step + 1) / step;
      if ((span > 0) != (step > 0) || span == 0) count = 0;
      TENON_INVALID_IF(count > INT64_MAX, "The range has too many elements.");
      return c.set_dims(0, {number(static_cast<int64_t>(count))});
    }
    return c.set_dims(0, {Dim{}});
  }
  std::optional<double> start = c.scalar(0), limit = c.scalar(1), delta = c.scalar(2);
  if (!start || !limit || !delta) return c.set_dims(0, {Dim{}});
  TENON_INVALID_IF(*delta == 0 || std::isnan(*start) || std::isnan(*limit) || std::isnan(*delta),
                   "The range from {} to {} in steps of {} has no length.", *start, *limit, *delta);
  const double count = std::max(0.0, std::ceil((*limit - *start) / *delta));
  TENON_INVALID_IF(!(count < 9.0e18), "The range from {} to {} in steps of {} has too many elements.", *start, *limit,
                   *delta);
  return c.set_dims(0, {number(static_cast<int64_t>(count))});
}

Status infer_random(Context& c) {
  c.set_type(0, static_cast<DataType>(c.node().int_or("dtype", static_cast<int64_t>(DataType::kFloat))));
  TENON_TRY_ASSIGN(Dims dims, dims_from(c.node().ints("shape")));
  return c.set_dims(0, std::move(dims));
}

constexpr Row kRows[] = {
    {"Concat", &infer_concat},       {"Constant", &infer_constant},    {"ConstantOfShape", &infer_constant_of_shape},
    {"Expand", &infer_expand},       {"Flatten", &infer_flatten},      {"Pad", &infer_pad},
    {"RandomNormal", &infer_random}, {"RandomUniform", &infer_random}, {"Range", &infer_range},
    {"Reshape", &infer_reshape},     {"Shape", &infer_shape},          {"Size", &infer_size},
    {"Slice", &infer_slice},         {"Split", &infer_split},          {"Squeeze", &infer_squeeze},
    {"Tile", &infer_tile},           {"Transpose", &infer_transpose},  {"Unsqueeze", &infer_unsqueeze},
};

}  // namespace

std::span<const Row> tensor_rows() { return kRows; }

}  // namespace tenon::infer
