// Reductions.
#include <algorithm>
#include <utility>

#include "base/status.h"
#include "ops/shape_inference_context.h"

namespace tenon::infer {
namespace {

Status infer_reduce(Context& c) {
  c.set_type(0, c.type(0));
  if (!c.ranked(0)) return {};
  const bool keep = c.node().int_or("keepdims", 1) != 0;
  std::optional<std::vector<int64_t>> axes;
  if (c.node().has("axes")) {
    std::span<const int64_t> attribute = c.node().ints("axes");
    axes.emplace(attribute.begin(), attribute.end());
  } else if (c.has(1)) {
    axes = c.values(1);
    if (!axes) {
      if (keep) return c.set_dims(0, Dims(c.dims(0).size()));
      if (c.ranked(1) && c.rank(1) == 1 && c.dims(1)[0].known() && c.dims(1)[0].value <= c.rank(0) &&
          c.dims(1)[0].value > 0)
        return c.set_dims(0, Dims(static_cast<size_t>(c.rank(0) - c.dims(1)[0].value)));
      return {};
    }
  }
  std::vector<bool> reduced(c.dims(0).size(), false);
  if (!axes || axes->empty()) {
    if (c.node().int_or("noop_with_empty_axes", 0) != 0) return c.copy(0);
    std::fill(reduced.begin(), reduced.end(), true);
  } else {
    for (int64_t axis : *axes) {
      TENON_TRY_ASSIGN(axis, c.axis(axis, c.rank(0)));
      TENON_INVALID_IF(reduced[static_cast<size_t>(axis)], "Axis {} is repeated.", axis);
      reduced[static_cast<size_t>(axis)] = true;
    }
  }
  Dims out;
  for (size_t i = 0; i < reduced.size(); ++i) {
    if (!reduced[i]) {
      out.push_back(c.dims(0)[i]);
    } else if (keep) {
      out.push_back(number(1));
    }
  }
  return c.set_dims(0, std::move(out));
}

constexpr Row kRows[] = {
    {"ReduceL1", &infer_reduce},        {"ReduceL2", &infer_reduce},   {"ReduceLogSum", &infer_reduce},
    {"ReduceLogSumExp", &infer_reduce}, {"ReduceMax", &infer_reduce},  {"ReduceMean", &infer_reduce},
    {"ReduceMin", &infer_reduce},       {"ReduceProd", &infer_reduce}, {"ReduceSum", &infer_reduce},
    {"ReduceSumSquare", &infer_reduce},
};

}  // namespace

std::span<const Row> math_rows() { return kRows; }

}  // namespace tenon::infer
