#include "ops/generate.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <utility>
#include <vector>

#include "ops/attributes.h"
#include "ops/shape_inference_context.h"

namespace tenon {

ShapeInterval read_shape_interval(const Node& node, int rank) {
  const Attributes attributes(node);
  const auto clamp = [rank](int64_t axis) -> size_t {
    return std::clamp<int64_t>(axis < 0 ? axis + rank : axis, 0, rank);
  };
  return {clamp(attributes.integer("start")), clamp(attributes.find_integer("end").value_or(rank))};
}

ConstantRef read_fill_value(const Node& node) { return Attributes(node).tensor("value"); }

int64_t read_eye_diagonal(const Node& node) { return Attributes(node).integer("k"); }

bool read_trilu_upper(const Node& node) { return Attributes(node).flag("upper"); }

namespace infer {
namespace {

Status infer_shape(Context& c) {
  c.set_type(0, DataType::kInt64);
  if (!c.ranked(0)) return c.set_dims(0, {Dim{}});
  const ShapeInterval interval = read_shape_interval(c.node(), c.rank(0));
  return c.set_dims(0, {number(static_cast<int64_t>(std::max(interval.end, interval.begin) - interval.begin))});
}

Status infer_size(Context& c) {
  c.set_type(0, DataType::kInt64);
  return c.set_dims(0, {});
}

Status infer_constant_of_shape(Context& c) {
  const ConstantRef value = read_fill_value(c.node());
  c.set_type(0, value ? value->type : DataType::kFloat);
  TENON_INVALID_IF(c.ranked(0) && c.rank(0) != 1, "The shape has {} dimensions itself, and must be a list.", c.rank(0));
  const std::optional<std::vector<int64_t>> shape = c.values(0);
  if (!shape) {
    const std::optional<int64_t> rank = c.length(0);
    return rank ? c.set_unknown_dims(*rank) : Status();
  }
  TENON_TRY_ASSIGN(Dims dims, known_dims(*shape));
  return c.set_dims(0, std::move(dims));
}

Status infer_constant(Context& c) {
  const ConstantRef value = Attributes(c.node()).tensor("value");
  if (!value) return {};
  c.set_type(0, value->type);
  TENON_TRY_ASSIGN(Dims dims, known_dims(value->shape.dims()));
  return c.set_dims(0, std::move(dims));
}

Status infer_range(Context& c) {
  c.set_type(0, c.type(0));
  // int64 ranges beyond 2^53 would lose bits as doubles: count them exactly.
  if (c.type(0) == DataType::kInt64) {
    const std::optional<std::vector<int64_t>> start = c.values(0), limit = c.values(1), delta = c.values(2);
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
  const std::optional<double> start = c.scalar(0), limit = c.scalar(1), delta = c.scalar(2);
  if (!start || !limit || !delta) return c.set_dims(0, {Dim{}});
  TENON_INVALID_IF(*delta == 0 || std::isnan(*start) || std::isnan(*limit) || std::isnan(*delta),
                   "The range from {} to {} in steps of {} has no length.", *start, *limit, *delta);
  const double count = std::max(0.0, std::ceil((*limit - *start) / *delta));
  TENON_INVALID_IF(!(count < 9.0e18), "The range from {} to {} in steps of {} has too many elements.", *start, *limit,
                   *delta);
  return c.set_dims(0, {number(static_cast<int64_t>(count))});
}

Status infer_non_zero(Context& c) {
  c.set_type(0, DataType::kInt64);
  return c.set_dims(0, {c.ranked(0) ? number(c.rank(0)) : Dim{}, Dim{}});
}

constexpr Row kRows[] = {
    {"Constant", &infer_constant}, {"ConstantOfShape", &infer_constant_of_shape},
    {"NonZero", &infer_non_zero},  {"Range", &infer_range},
    {"Shape", &infer_shape},       {"Size", &infer_size},
};

}  // namespace

std::span<const Row> generate_rows() { return kRows; }

}  // namespace infer
}  // namespace tenon
