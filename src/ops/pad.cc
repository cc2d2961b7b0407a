#include "ops/pad.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "base/checked.h"
#include "ops/attributes.h"
#include "ops/axes.h"
#include "ops/shape_inference_context.h"

namespace tenon {

Result<PadMode> read_pad_mode(const Node& node) {
  const std::string_view name = Attributes(node).text("mode");
  if (name == "constant") return PadMode::kConstant;
  if (name == "reflect") return PadMode::kReflect;
  if (name == "edge") return PadMode::kEdge;
  if (name == "wrap") return PadMode::kWrap;
  return invalid_argument("Pad has the unknown mode \"{}\".", name);
}

bool has_pad_attributes(const Node& node) { return node.since_version < 11; }

std::span<const int64_t> pad_attribute(const Node& node) { return Attributes(node).integers("pads"); }

float pad_value_attribute(const Node& node) { return Attributes(node).number("value"); }

namespace {

// Elements of `size` that a pad takes away.
int64_t cropped(int64_t pad, int64_t size) { return pad >= 0 ? 0 : pad < -size ? size : -pad; }

}  // namespace

Result<PadDesc> resolve_pad(PadMode mode, const Shape& x, std::span<const int64_t> pads,
                            std::optional<std::span<const int64_t>> axes) {
  const size_t count = axes ? axes->size() : x.dims().size();
  TENON_INVALID_IF(pads.size() != 2 * count, "There are {} pads for {} axes of {}.", pads.size(), count, x.to_string());
  PadDesc desc{.mode = mode, .axes = {}, .output = x};
  for (int d = 0; d < x.rank(); ++d) desc.axes[d].kept = x[d];
  AxisSet padded;
  for (size_t i = 0; i < count; ++i) {
    TENON_TRY_ASSIGN(const int axis, add_axis(padded, axes ? (*axes)[i] : static_cast<int64_t>(i), x.rank()));
    const int64_t before = pads[i], after = pads[i + count];
    std::optional<int64_t> size = checked_add(x[axis], before);
    if (size) size = checked_add(*size, after);
    TENON_INVALID_IF(!size || *size < 0, "Pads {} and {} do not fit axis {} of {}.", before, after, axis,
                     x.to_string());
    PadAxis& pad = desc.axes[axis];
    pad.crop = cropped(before, x[axis]);
    pad.kept = std::max<int64_t>(0, x[axis] - pad.crop - cropped(after, x[axis]));
    pad.begin = pad.kept > 0 ? before + pad.crop : 0;
    TENON_INVALID_IF(pad.kept == 0 && *size != 0 && mode != PadMode::kConstant,
                     "Pads {} and {} have nothing to repeat on axis {} of {}.", before, after, axis, x.to_string());
    desc.output[axis] = *size;
  }
  return desc;
}

Result<PadDesc> read_pad(const Node& node, const Shape& x, const ReadIntegers& integers) {
  TENON_TRY_ASSIGN(const PadMode mode, read_pad_mode(node));
  if (has_pad_attributes(node)) return resolve_pad(mode, x, pad_attribute(node), std::nullopt);
  TENON_TRY_ASSIGN(const std::vector<int64_t> pads, integers(1));
  if (node.input(3) == kNoValue) return resolve_pad(mode, x, pads, std::nullopt);
  TENON_TRY_ASSIGN(const std::vector<int64_t> axes, integers(3));
  return resolve_pad(mode, x, pads, axes);
}

namespace infer {
namespace {

Status infer_pad(Context& c) {
  c.set_type(0, c.type(0));
  if (!c.ranked(0)) return {};
  std::optional<std::vector<int64_t>> pads = c.values(1), axes;
  if (const std::span<const int64_t> attribute = pad_attribute(c.node()); !attribute.empty())
    pads.emplace(attribute.begin(), attribute.end());
  if (c.has(3)) {
    axes = c.values(3);
    if (!axes) return c.set_unknown_dims(c.rank(0));
  } else {
    axes.emplace();
    for (int64_t i = 0; i < c.rank(0); ++i) axes->push_back(i);
  }
  TENON_TRY(axis_set(*axes, c.rank(0)).status());
  if (!pads) return c.set_unknown_dims(c.rank(0));
  TENON_INVALID_IF(pads->size() != 2 * axes->size(), "There are {} pads for {} axes.", pads->size(), axes->size());
  Dims out = c.dims(0);
  for (size_t i = 0; i < axes->size(); ++i) {
    TENON_TRY_ASSIGN(const int axis, normalized_axis((*axes)[i], c.rank(0)));
    Dim& dim = out[axis];
    const int64_t before = (*pads)[i], after = (*pads)[i + axes->size()];
    if (before == 0 && after == 0) continue;
    if (!dim.known()) {
      dim = Dim{};
      continue;
    }
    std::optional<int64_t> sum = checked_add(dim.value, before);
    if (sum) sum = checked_add(*sum, after);
    TENON_INVALID_IF(!sum || *sum < 0, "Pads {} and {} do not fit axis {} of {}.", before, after, axis,
                     text(c.dims(0)));
    dim = number(*sum);
  }
  return c.set_dims(0, std::move(out));
}

constexpr Row kRows[] = {{"Pad", &infer_pad}};

}  // namespace

std::span<const Row> pad_rows() { return kRows; }

}  // namespace infer
}  // namespace tenon
