#include "ops/contrib.h"

#include <algorithm>

#include "ops/attributes.h"
#include "ops/axes.h"
#include "ops/input_shapes.h"

namespace tenon {

Result<InverseDesc> read_inverse(const Shape& x) {
  TENON_INVALID_IF(x.rank() < 2 || x[x.rank() - 1] != x[x.rank() - 2], "Inverse takes square matrices, not {}.",
                   x.to_string());
  return InverseDesc{span_product(x, 0, x.rank() - 2), x[x.rank() - 1]};
}

Result<NGramDesc> read_ngram(const Node& node, const Shape& ids, const Shape& scores) {
  TENON_INVALID_IF(ids.rank() != 2 || scores.rank() != 2 || ids[0] != scores[0],
                   "NGramRepeatBlock has ids {} and scores {}.", ids.to_string(), scores.to_string());
  const NGramDesc desc{ids[0], ids[1], scores[1], Attributes(node).find_integer("ngram_size").value_or(0)};
  TENON_INVALID_IF(desc.length < 1, "Attribute \"ngram_size\" ({}) has to be positive.", desc.length);
  return desc;
}

Result<CropDesc> read_crop(const Node& node, const Shape& x, const Shape& boxes, const Shape& images) {
  TENON_INVALID_IF(x.rank() != 4 || boxes.rank() != 2 || boxes[1] != 4 || images != Shape{boxes[0]},
                   "CropAndResize has images {}, boxes {} and numbers of images {}.", x.to_string(), boxes.to_string(),
                   images.to_string());
  const Attributes attributes(node);
  const std::string_view mode = attributes.text("mode");
  TENON_INVALID_IF(mode != "bilinear" && mode != "nearest", "CropAndResize has the mode \"{}\".", mode);
  return CropDesc{x[0], x[1], x[2], x[3], boxes[0], mode == "nearest", attributes.number("extrapolation_value")};
}

Result<UnfoldDesc> read_unfold(const Node& node, const Shape& x) {
  const Attributes attributes(node);
  TENON_INVALID_IF(x.rank() >= Shape::kMaxRank, "UnfoldTensor adds a dimension to {}, which has {}.", x.to_string(),
                   x.rank());
  TENON_TRY_ASSIGN(const int axis, normalized_axis(attributes.integer("dim"), x.rank()));
  UnfoldDesc desc{.outer = span_product(x, 0, axis),
                  .length = x[axis],
                  .inner = span_product(x, axis + 1, x.rank()),
                  .size = attributes.find_integer("size").value_or(0),
                  .step = attributes.integer("step"),
                  .output = x};
  TENON_INVALID_IF(desc.size < 1 || desc.size > desc.length || desc.step < 1,
                   "UnfoldTensor takes slices of {}, {} apart, from {} elements.", desc.size, desc.step, desc.length);
  desc.slices = (desc.length - desc.size) / desc.step + 1;
  desc.output[axis] = desc.slices;
  desc.output.push_back(desc.size);
  return desc;
}

namespace infer {
namespace {

Status infer_inverse(Context& c) {
  if (c.ranked(0) && c.in(0).fully_known()) TENON_TRY(read_inverse(c.in(0).shape()).status());
  return c.copy(0);
}

Status infer_scores(Context& c) { return c.copy(1); }

Status infer_crop(Context& c) {
  c.set_type(0, c.type(0));
  if (!c.ranked(0) || c.rank(0) != 4) return c.set_unknown_dims(4);
  const Dim boxes = c.ranked(1) && c.rank(1) == 2 ? c.dims(1)[0] : Dim{};
  const auto size = c.values(3);
  if (size) {
    TENON_INVALID_IF(size->size() != 2 || (*size)[0] < 1 || (*size)[1] < 1,
                     "CropAndResize has a size of {} numbers, which have to be two and positive.", size->size());
  }
  return c.set_dims(0, {boxes, c.dims(0)[1], size ? number((*size)[0]) : Dim{}, size ? number((*size)[1]) : Dim{}});
}

Status infer_unfold(Context& c) {
  c.set_type(0, c.type(0));
  if (!c.ranked(0)) return {};
  if (c.in(0).fully_known()) {
    TENON_TRY_ASSIGN(const UnfoldDesc desc, read_unfold(c.node(), c.in(0).shape()));
    return c.set_dims(0, to_dims(desc.output));
  }
  return c.set_unknown_dims(c.rank(0) + 1);
}

Status infer_experts(Context& c) { return c.copy(0); }

Status infer_hash(Context& c) {
  c.set_type(0, Attributes(c.node()).flag("positive") ? DataType::kUint32 : DataType::kInt32);
  return c.ranked(0) ? c.set_dims(0, c.dims(0)) : Status();
}

Status infer_time_warping(Context& c) {
  c.set_type(0, DataType::kInt32);
  return c.set_dims(0, {number(2), Dim{}});
}

Status infer_tokenizer(Context& c) {
  c.set_type(0, DataType::kString);
  if (!c.ranked(0)) return {};
  TENON_INVALID_IF(c.rank(0) != 1 && c.rank(0) != 2, "Tokenizer takes [C] or [N,C], not {}.", text(c.dims(0)));
  Dims dims = c.dims(0);
  if (!std::all_of(dims.begin(), dims.end(), [](const Dim& dim) { return dim.known(); })) return {};
  // Without texts there is no dimension of tokens.
  if (std::any_of(dims.begin(), dims.end(), [](const Dim& dim) { return dim.value == 0; })) {
    dims.back() = number(0);
  } else {
    dims.emplace_back();
  }
  return c.set_dims(0, std::move(dims));
}

constexpr Row kRows[] = {{"CropAndResize", &infer_crop}, {"DynamicTimeWarping", &infer_time_warping},
                         {"Inverse", &infer_inverse},    {"MoE", &infer_experts},
                         {"MurmurHash3", &infer_hash},   {"NGramRepeatBlock", &infer_scores},
                         {"QMoE", &infer_experts},       {"Tokenizer", &infer_tokenizer},
                         {"UnfoldTensor", &infer_unfold}};

}  // namespace

std::span<const Row> contrib_rows() { return kRows; }

}  // namespace infer
}  // namespace tenon
