#include "ops/rotary.h"

#include <algorithm>
#include <utility>

#include "base/status.h"
#include "ops/attributes.h"
#include "ops/transpose.h"

namespace tenon {

namespace {

Status read_heads(const Node& node, const Shape& x, const Shape& cos, RotaryDesc& desc) {
  const int64_t heads = Attributes(node).find_integer("num_heads").value_or(0);
  const int64_t half = cos.rank() == 0 ? 0 : cos[cos.rank() - 1];
  if (x.rank() == 4) {
    desc.batch = x[0], desc.heads = x[1], desc.tokens = x[2], desc.depth = x[3];
    desc.at = {x[1] * x[2] * x[3], x[2] * x[3], x[3]};
  } else {
    TENON_INVALID_IF(x.rank() != 3, "RotaryEmbedding takes X of 3 or 4 dimensions, not {}.", x.to_string());
    desc.batch = x[0], desc.tokens = x[1];
    // com.microsoft: without a number of heads each of them is turned throughout.
    const int64_t implied = !node.domain.empty() && half > 0 ? x[2] / (2 * half) : 0;
    desc.heads = heads > 0 ? heads : implied;
    TENON_INVALID_IF(desc.heads < 1 || x[2] % desc.heads != 0, "X {} does not divide into {} heads.", x.to_string(),
                     desc.heads);
    desc.depth = x[2] / desc.heads;
    desc.at = {x[1] * x[2], desc.depth, x[2]};
  }
  const int64_t stated = Attributes(node).find_integer("rotary_embedding_dim").value_or(0);
  desc.turned = stated != 0 ? stated : node.domain.empty() ? desc.depth : 2 * half;
  TENON_INVALID_IF(desc.turned < 0 || desc.turned > desc.depth || desc.turned % 2 != 0,
                   "RotaryEmbedding turns {} of the {} elements of a head.", desc.turned, desc.depth);
  return {};
}

// Of tenon.RotateHalf: the axes of X in the order of Y. Errors: a permutation that moves the last axis.
Result<std::vector<int64_t>> read_x_perm(const Node& node, int rank) {
  TENON_INVALID_IF(rank < 1, "RotateHalf takes no scalars.");
  std::vector<int64_t> perm(rank);
  for (int i = 0; i < rank; ++i) perm[i] = i;
  if (!Attributes(node).has("perm")) return perm;
  TENON_TRY_ASSIGN(perm, read_perm(node, rank));
  TENON_INVALID_IF(perm.back() != rank - 1, "Attribute \"perm\" moves the last axis of RotateHalf's X.");
  return perm;
}

// Errors: rows that cannot be turned.
Status check_row(const Dim& x, const Dim& cos, const Dim& sin) {
  TENON_INVALID_IF(infer::certainly_differ(cos, sin), "RotateHalf has rows of {} cosines and {} sines.", cos.value,
                   sin.value);
  TENON_INVALID_IF(cos.known() && (cos.value % 2 != 0 || (x.known() && cos.value > x.value)),
                   "RotateHalf turns {} of the {} elements of a row.", cos.value, x.known() ? x.value : -1);
  return {};
}

// The dimensions of Y. Errors: as read_rotate_half().
Result<infer::Dims> rotated_dims(const Node& node, const infer::Dims& x, const infer::Dims& cos,
                                 const infer::Dims& sin) {
  TENON_TRY_ASSIGN(const std::vector<int64_t> perm, read_x_perm(node, static_cast<int>(x.size())));
  TENON_INVALID_IF(cos.empty() || sin.empty(), "RotateHalf takes no scalars.");
  TENON_TRY(check_row(x.back(), cos.back(), sin.back()));
  infer::Dims y;
  for (int64_t axis : perm) y.push_back(x[axis]);
  for (const infer::Dims* angles : {&cos, &sin}) {
    infer::Dims rows = *angles;
    rows.back() = x.back();
    TENON_TRY_ASSIGN(y, infer::broadcast(y, rows));
  }
  return y;
}

}  // namespace

Result<RotateHalfDesc> read_rotate_half(const Node& node, const InputShapes& shapes) {
  TENON_TRY(require_shapes(node, shapes, 3));
  const Shape &x = *shapes.find(0), &cos = *shapes.find(1), &sin = *shapes.find(2);
  RotateHalfDesc desc;
  TENON_TRY_ASSIGN(const infer::Dims y,
                   rotated_dims(node, infer::to_dims(x), infer::to_dims(cos), infer::to_dims(sin)));
  desc.y = infer::to_shape(y);
  desc.depth = x[x.rank() - 1];
  desc.turned = cos[cos.rank() - 1];
  desc.interleaved = rotates_neighbours(node);
  TENON_TRY_ASSIGN(const std::vector<int64_t> perm, read_x_perm(node, x.rank()));
  // Elements of an axis of Y, counted from its last one, in an operand whose axis it is.
  const auto stride = [](const Shape& shape, int axis) {
    int64_t step = 1;
    for (int i = axis + 1; i < shape.rank(); ++i) step *= shape[i];
    return shape[axis] == 1 ? 0 : step;
  };
  const int rank = desc.y.rank();
  for (int axis = 0; axis < rank - 1; ++axis) {
    if (desc.y[axis] == 1) continue;
    RotateHalfDesc::Rows rows{.count = desc.y[axis]};
    const int of_x = axis - (rank - x.rank()), of_cos = axis - (rank - cos.rank()), of_sin = axis - (rank - sin.rank());
    if (of_x >= 0) rows.x = stride(x, static_cast<int>(perm[of_x]));
    if (of_cos >= 0) rows.cos = stride(cos, of_cos);
    if (of_sin >= 0) rows.sin = stride(sin, of_sin);
    desc.rows.push_back(rows);
  }
  if (desc.rows.empty()) desc.rows.emplace_back();
  return desc;
}

void write_rotate_half(Node& node, bool interleaved, std::vector<int64_t> perm) {
  if (interleaved) node.set_int("interleaved", 1);
  if (!perm.empty()) node.set_ints("perm", std::move(perm));
}

bool rotates_neighbours(const Node& node) { return Attributes(node).flag("interleaved"); }

Result<RotaryDesc> read_rotary(const Node& node, const InputShapes& shapes) {
  const bool contrib = !node.domain.empty();  // com.microsoft has (input, position_ids, cos_cache, sin_cache)
  RotaryDesc desc;
  desc.cos = contrib ? 2 : 1, desc.sin = contrib ? 3 : 2;
  TENON_TRY(require_shapes(node, shapes, contrib ? 4 : 3));
  const Shape &x = *shapes.find(0), &cos = *shapes.find(desc.cos), &sin = *shapes.find(desc.sin);
  TENON_TRY(read_heads(node, x, cos, desc));
  desc.interleaved = Attributes(node).find_integer("interleaved").value_or(0) != 0;
  TENON_UNSUPPORTED_IF(contrib && Attributes(node).find_integer("is_packed_batching").value_or(0) != 0,
                       "RotaryEmbedding is not computed for packed batches.");
  TENON_INVALID_IF(cos != sin, "The cosines {} and sines {} have different shapes.", cos.to_string(), sin.to_string());
  const size_t ids_input = contrib ? 1 : 3;
  const Shape* ids = shapes.find(ids_input);
  const int64_t half = desc.turned / 2;
  if (ids == nullptr) {
    TENON_INVALID_IF(cos != Shape({desc.batch, desc.tokens, half}),
                     "The cosines {} are not {} for each of {} tokens in {} batches.", cos.to_string(), half,
                     desc.tokens, desc.batch);
    desc.rows = desc.batch * desc.tokens;
    return desc;
  }
  TENON_INVALID_IF(cos.rank() != 2 || cos[1] != half, "The cosines {} are not rows of {}.", cos.to_string(), half);
  desc.rows = cos[0];
  desc.ids = ids_input;
  const bool following = contrib && (*ids == Shape{1} || ids->rank() == 0);
  desc.positions = following ? RotaryDesc::Positions::kFollowing : RotaryDesc::Positions::kGiven;
  TENON_INVALID_IF(!following && *ids != Shape({desc.batch, desc.tokens}),
                   "The positions {} are not those of {} tokens in {} batches.", ids->to_string(), desc.tokens,
                   desc.batch);
  return desc;
}

namespace infer {
namespace {

Status infer_rotary(Context& c) { return c.copy(0); }

Status infer_rotate_half(Context& c) {
  c.set_type(0, c.type(0));
  if (!c.ranked(0) || !c.ranked(1) || !c.ranked(2)) return {};
  TENON_TRY_ASSIGN(Dims y, rotated_dims(c.node(), c.dims(0), c.dims(1), c.dims(2)));
  return c.set_dims(0, std::move(y));
}

constexpr Row kRows[] = {{"RotaryEmbedding", &infer_rotary}};
constexpr Row kInternalRows[] = {{"RotateHalf", &infer_rotate_half}};

}  // namespace

std::span<const Row> rotary_rows() { return kRows; }
std::span<const Row> internal_rotary_rows() { return kInternalRows; }

}  // namespace infer
}  // namespace tenon
