// Operators that pick elements: Gather and its kin, TopK, OneHot, NonZero, ArgMax, Compress, NonMaxSuppression.
#include <algorithm>
#include <utility>

#include "base/status.h"
#include "ops/shape_inference_context.h"

namespace tenon::infer {
namespace {

Status infer_gather(Context& c) {
  c.set_type(0, c.type(0));
  if (!c.ranked(0) || !c.ranked(1)) return {};
  TENON_INVALID_IF(c.rank(0) < 1, "The data is a scalar; gathering needs rank 1 or more.");
  TENON_TRY_ASSIGN(int64_t axis, c.axis_attribute(0, c.rank(0)));
  const Dims& data = c.dims(0);
  Dims out(data.begin(), data.begin() + axis);
  out.insert(out.end(), c.dims(1).begin(), c.dims(1).end());
  out.insert(out.end(), data.begin() + axis + 1, data.end());
  return c.set_dims(0, std::move(out));
}

Status infer_gather_elements(Context& c) {
  c.set_type(0, c.type(0));
  if (!c.ranked(1)) return {};
  if (c.ranked(0)) {
    TENON_INVALID_IF(c.rank(0) != c.rank(1), "The data {} and the indices {} differ in rank.", text(c.dims(0)),
                     text(c.dims(1)));
    TENON_TRY(c.axis_attribute(0, c.rank(0)).status());
  }
  return c.set_dims(0, c.dims(1));
}

Status infer_gather_nd(Context& c) {
  c.set_type(0, c.type(0));
  if (!c.ranked(0) || !c.ranked(1)) return {};
  const int64_t batch = c.node().int_or("batch_dims", 0);
  TENON_INVALID_IF(c.rank(1) < 1 || batch < 0 || batch >= c.rank(1) || batch >= c.rank(0),
                   "Data {} and indices {} do not fit batch_dims {}.", text(c.dims(0)), text(c.dims(1)), batch);
  const Dim& depth = c.dims(1).back();
  if (!depth.known()) return {};
  TENON_INVALID_IF(depth.value < 1 || depth.value > c.rank(0) - batch,
                   "Indices {} address {} dimensions of data {} after {} batch dimensions.", text(c.dims(1)),
                   depth.value, text(c.dims(0)), batch);
  Dims out(c.dims(1).begin(), c.dims(1).end() - 1);
  out.insert(out.end(), c.dims(0).begin() + batch + depth.value, c.dims(0).end());
  return c.set_dims(0, std::move(out));
}

Status infer_one_hot(Context& c) {
  c.set_type(0, c.type(2));
  if (!c.ranked(0)) return {};
  const int64_t rank = c.rank(0) + 1;
  TENON_TRY_ASSIGN(int64_t axis, c.axis_attribute(-1, rank));
  Dim depth;
  if (std::optional<std::vector<int64_t>> value = c.values(1); value && value->size() == 1) {
    TENON_INVALID_IF((*value)[0] < 1, "The depth {} has to be positive.", (*value)[0]);
    depth = number((*value)[0]);
  } else if (std::optional<double> real = c.scalar(1)) {
    TENON_INVALID_IF(!(*real >= 1 && *real < 9.0e18), "The depth {} has to be positive.", *real);
    depth = number(static_cast<int64_t>(*real));
  }
  Dims out = c.dims(0);
  out.insert(out.begin() + axis, depth);
  return c.set_dims(0, std::move(out));
}

Status infer_top_k(Context& c) {
  c.set_type(0, c.type(0));
  c.set_type(1, DataType::kInt64);
  if (!c.ranked(0)) return {};
  TENON_INVALID_IF(c.rank(0) < 1, "X is a scalar; TopK needs rank 1 or more.");
  TENON_TRY_ASSIGN(int64_t axis, c.axis_attribute(-1, c.rank(0)));
  Dims out = c.dims(0);
  Dim& dim = out[static_cast<size_t>(axis)];
  std::optional<std::vector<int64_t>> k = c.values(1);
  if (const Attribute* attribute = c.node().find("k")) k = std::vector<int64_t>{attribute->i};
  if (k && k->size() == 1) {
    TENON_INVALID_IF((*k)[0] < 0 || (dim.known() && (*k)[0] > dim.value), "K ({}) is out of range for axis {} of {}.",
                     (*k)[0], axis, text(c.dims(0)));
    dim = number((*k)[0]);
  } else {
    dim = Dim{};
  }
  TENON_TRY(c.set_dims(1, out));
  return c.set_dims(0, std::move(out));
}

Status infer_non_zero(Context& c) {
  c.set_type(0, DataType::kInt64);
  return c.set_dims(0, {c.ranked(0) ? number(c.rank(0)) : Dim{}, Dim{}});
}

// The first output: the first input with a size along the axis, or of the flat tensor, that only values say.
Status leave_axis_open(Context& c) {
  if (!c.node().has("axis")) return c.set_dims(0, {Dim{}});
  if (!c.ranked(0)) return {};
  TENON_TRY_ASSIGN(int64_t axis, c.axis_attribute(0, c.rank(0)));
  Dims out = c.dims(0);
  out[static_cast<size_t>(axis)] = Dim{};
  return c.set_dims(0, std::move(out));
}

Status infer_compress(Context& c) {
  c.set_type(0, c.type(0));
  return leave_axis_open(c);
}

Status infer_unique(Context& c) {
  c.set_type(0, c.type(0));
  for (size_t i = 1; i < 4; ++i) {
    c.set_type(i, DataType::kInt64);
    TENON_TRY(c.set_dims(i, {Dim{}}));
  }
  return leave_axis_open(c);
}

Status infer_non_max_suppression(Context& c) {
  c.set_type(0, DataType::kInt64);
  return c.set_dims(0, {Dim{}, number(3)});
}

constexpr Row kRows[] = {
    {"Compress", &infer_compress},
    {"Gather", &infer_gather},
    {"GatherElements", &infer_gather_elements},
    {"GatherND", &infer_gather_nd},
    {"NonMaxSuppression", &infer_non_max_suppression},
    {"NonZero", &infer_non_zero},
    {"OneHot", &infer_one_hot},
    {"TopK", &infer_top_k},
    {"Unique", &infer_unique},
};

}  // namespace

std::span<const Row> index_rows() { return kRows; }

}  // namespace tenon::infer
