#include "ops/block_quantized.h"

#include <array>
#include <utility>

#include "base/checked.h"
#include "base/status.h"
#include "ops/attributes.h"
#include "ops/shape_inference_context.h"

namespace tenon {

namespace {

// A positive attribute below 2^31.
Result<int64_t> read_size(const Node& node, const char* name) {
  const int64_t value = Attributes(node).find_integer(name).value_or(0);
  TENON_INVALID_IF(value < 1 || value > INT32_MAX, "{} has the attribute \"{}\" {}; 1 to {} are possible.",
                   node.op_type, name, value, INT32_MAX);
  return value;
}

// M and the shape of Y of a product of A [..., K] with N columns.
Status read_rows(const Node& node, const Shape& a, int64_t n, int64_t k, int64_t& m, Shape& y) {
  TENON_INVALID_IF(a.rank() < 1 || a[a.rank() - 1] != k, "{} has A of shape {}; its last dimension needs to be K, {}.",
                   node.op_type, a.to_string(), k);
  y = a;
  y[a.rank() - 1] = n;
  TENON_TRY(y.checked_element_count().status());
  m = span_product(a, 0, a.rank() - 1);
  return {};
}

// `shape` holds as many elements as `rows` x `columns`, in one dimension or several.
Status check_count(const Node& node, const char* name, const Shape& shape, int64_t rows, int64_t columns) {
  const auto wanted = checked_mul(rows, columns);
  TENON_INVALID_IF(!wanted || shape.element_count() != *wanted, "{} has {} of shape {}; {} x {} elements are needed.",
                   node.op_type, name, shape.to_string(), rows, columns);
  return {};
}

}  // namespace

Result<NBitsDesc> read_matmul_nbits(const Node& node, const InputShapes& shapes) {
  using Desc = NBitsDesc;
  TENON_TRY(require_shapes(node, shapes, 3));
  Desc desc;
  TENON_TRY_ASSIGN(desc.n, read_size(node, "N"));
  TENON_TRY_ASSIGN(desc.k, read_size(node, "K"));
  TENON_TRY_ASSIGN(desc.block_size, read_size(node, "block_size"));
  desc.bits = Attributes(node).integer("bits");
  TENON_INVALID_IF(desc.bits != 2 && desc.bits != 4 && desc.bits != 8,
                   "MatMulNBits has {} bits; 2, 4 and 8 are possible.", desc.bits);
  desc.rounds_a = Attributes(node).integer("accuracy_level") == 4;
  desc.blocks = (desc.k - 1) / desc.block_size + 1;
  desc.block_bytes = (desc.block_size * desc.bits + 7) / 8;
  TENON_TRY(read_rows(node, *shapes.find(Desc::kA), desc.n, desc.k, desc.m, desc.y));
  TENON_TRY(check_count(node, "B", *shapes.find(Desc::kB), desc.n * desc.blocks, desc.block_bytes));
  TENON_TRY(check_count(node, "scales", *shapes.find(Desc::kScales), desc.n, desc.blocks));
  if (const Shape* group = shapes.find(Desc::kGroupIndex)) {
    // Exporters pad the groups to whole blocks.
    const int64_t count = group->element_count();
    TENON_INVALID_IF(count != desc.k && count != desc.blocks * desc.block_size,
                     "MatMulNBits has g_idx of shape {}; it needs K, {}, elements.", group->to_string(), desc.k);
  }
  if (const Shape* bias = shapes.find(Desc::kBias)) TENON_TRY(check_count(node, "a bias", *bias, desc.n, 1));
  return desc;
}

std::span<const float> Bnb4Desc::table() const {
  static constexpr std::array<float, 16> kNormal = {
      -1.0f,       -0.69619280f, -0.52507305f, -0.39491749f, -0.28444138f, -0.18477343f, -0.09105004f, 0.0f,
      0.07958030f, 0.16093020f,  0.24611230f,  0.33791524f,  0.44070983f,  0.56261700f,  0.72295684f,  1.0f};
  static constexpr std::array<float, 16> kFloats = {
      0.0f,  0.005208333333f,  0.66666667f,  1.0f,  0.33333333f,  0.5f,  0.16666667f,  0.25f,
      -0.0f, -0.005208333333f, -0.66666667f, -1.0f, -0.33333333f, -0.5f, -0.16666667f, -0.25f};
  return normal_floats ? kNormal : kFloats;
}

Result<Bnb4Desc> read_matmul_bnb4(const Node& node, const InputShapes& shapes) {
  TENON_TRY(require_shapes(node, shapes, 3));
  const Attributes attributes(node);
  Bnb4Desc desc;
  TENON_TRY_ASSIGN(desc.n, read_size(node, "N"));
  TENON_TRY_ASSIGN(desc.k, read_size(node, "K"));
  TENON_TRY_ASSIGN(desc.block_size, read_size(node, "block_size"));
  const int64_t kind = attributes.find_integer("quant_type").value_or(-1);
  TENON_INVALID_IF(kind != 0 && kind != 1, "MatMulBnb4 has the quant_type {}; 0 (FP4) and 1 (NF4) are possible.", kind);
  desc.normal_floats = kind == 1;
  desc.column_step = desc.k;
  if (!attributes.flag("transB")) {
    std::swap(desc.column_step, desc.element_step);
    std::swap(desc.n, desc.k);
  }
  TENON_TRY(read_rows(node, *shapes.find(0), desc.n, desc.k, desc.m, desc.y));
  const int64_t count = desc.n * desc.k;
  TENON_TRY(check_count(node, "B", *shapes.find(1), (count + 1) / 2, 1));
  TENON_TRY(check_count(node, "absmax", *shapes.find(2), (count - 1) / desc.block_size + 1, 1));
  return desc;
}

Result<GatherBlocksDesc> read_gather_blocks(const Node& node, DataType data_type, const InputShapes& shapes) {
  TENON_TRY(require_shapes(node, shapes, 3));
  const Attributes attributes(node);
  GatherBlocksDesc desc;
  desc.data = *shapes.find(0);
  const Shape &indices = *shapes.find(1), &scales = *shapes.find(2);
  const int rank = desc.data.rank();
  TENON_TRY_ASSIGN(desc.block_size, read_size(node, "block_size"));
  desc.bits = data_type == DataType::kUint8 ? attributes.integer("bits") : data_type_bits(data_type);
  TENON_INVALID_IF(data_type == DataType::kUint8 && desc.bits != 4 && desc.bits != 8,
                   "GatherBlockQuantized has {} bits; 4 and 8 are possible.", desc.bits);
  desc.bytes_of_pairs = data_type == DataType::kUint8 && desc.bits == 4;
  TENON_TRY_ASSIGN(const int axis, normalized_axis(attributes.integer("gather_axis"), rank));
  TENON_TRY_ASSIGN(desc.quantize_axis, normalized_axis(attributes.integer("quantize_axis"), rank));
  TENON_INVALID_IF(axis == desc.quantize_axis, "GatherBlockQuantized gathers and quantises along axis {}.", axis);
  if (desc.bytes_of_pairs) {
    const auto doubled = checked_mul<int64_t>(desc.data[rank - 1], 2);
    TENON_INVALID_IF(!doubled, "GatherBlockQuantized has data of shape {}.", desc.data.to_string());
    desc.data[rank - 1] = *doubled;
  }
  TENON_TRY(desc.data.checked_element_count().status());
  Shape wanted = desc.data;
  const int64_t length = wanted[desc.quantize_axis];
  wanted[desc.quantize_axis] = length / desc.block_size + (length % desc.block_size != 0 ? 1 : 0);
  TENON_INVALID_IF(scales != wanted, "GatherBlockQuantized has scales of shape {}; they need {}.", scales.to_string(),
                   wanted.to_string());
  desc.scales = scales;
  if (const Shape* zero = shapes.find(3)) {
    Shape packed = wanted;
    if (desc.bytes_of_pairs) packed[rank - 1] = (packed[rank - 1] + 1) / 2;
    TENON_INVALID_IF(*zero != packed, "GatherBlockQuantized has zero points of shape {}; they need {}.",
                     zero->to_string(), packed.to_string());
  }
  TENON_INVALID_IF(rank - 1 + indices.rank() > Shape::kMaxRank, "GatherBlockQuantized makes rank {}; the limit is {}.",
                   rank - 1 + indices.rank(), Shape::kMaxRank);
  desc.gather = axis_span(desc.data, axis);
  desc.count = indices.element_count();
  for (int d = 0; d < axis; ++d) desc.output.push_back(desc.data[d]);
  for (int64_t dim : indices.dims()) desc.output.push_back(dim);
  for (int d = axis + 1; d < rank; ++d) desc.output.push_back(desc.data[d]);
  TENON_TRY(desc.output.checked_element_count().status());
  return desc;
}

namespace infer {
namespace {

// A's dimensions with N in place of the last.
Status infer_columns(Context& c) {
  c.set_type(0, c.type(0));
  if (!c.ranked(0)) return {};
  TENON_INVALID_IF(c.rank(0) == 0, "{} has a scalar A.", c.node().op_type);
  const bool by_rows = c.node().op_type == "MatMulBnb4" && !Attributes(c.node()).flag("transB");
  TENON_TRY_ASSIGN(const int64_t n, read_size(c.node(), by_rows ? "K" : "N"));
  Dims out = c.dims(0);
  out.back() = number(n);
  return c.set_dims(0, std::move(out));
}

Status infer_gather_blocks(Context& c) {
  c.set_type(0, c.type(2));
  if (!c.ranked(0) || !c.ranked(1)) return {};
  const Attributes attributes(c.node());
  TENON_TRY_ASSIGN(const int axis, normalized_axis(attributes.integer("gather_axis"), c.rank(0)));
  Dims data = c.dims(0);
  if (c.type(0) == DataType::kUint8 && attributes.integer("bits") == 4 && data.back().known()) {
    const auto doubled = checked_mul<int64_t>(data.back().value, 2);
    TENON_INVALID_IF(!doubled, "GatherBlockQuantized has data of shape {}.", text(data));
    data.back() = number(*doubled);
  } else if (c.type(0) == DataType::kUint8 && attributes.integer("bits") == 4) {
    data.back() = Dim{};
  }
  Dims out(data.begin(), data.begin() + axis);
  out.insert(out.end(), c.dims(1).begin(), c.dims(1).end());
  out.insert(out.end(), data.begin() + axis + 1, data.end());
  return c.set_dims(0, std::move(out));
}

constexpr Row kRows[] = {
    {"GatherBlockQuantized", &infer_gather_blocks},
    {"MatMulBnb4", &infer_columns},
    {"MatMulNBits", &infer_columns},
};

}  // namespace

std::span<const Row> contrib_block_rows() { return kRows; }

}  // namespace infer
}  // namespace tenon
