#include "ops/rotary.h"

#include "base/status.h"
#include "ops/attributes.h"

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

}  // namespace

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

constexpr Row kRows[] = {{"RotaryEmbedding", &infer_rotary}};

}  // namespace

std::span<const Row> rotary_rows() { return kRows; }

}  // namespace infer
}  // namespace tenon
