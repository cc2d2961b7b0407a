// Attention whose keys and values are those of fewer heads, repeated for the heads of each group: tenon.Attention reads
// the few.
#include <algorithm>
#include <optional>
#include <utility>

#include "ops/gather.h"
#include "ops/integer_inputs.h"
#include "ops/reshape.h"
#include "plan/pass_rewriter.h"
#include "plan/passes.h"

namespace tenon {
namespace {

// Heads [B,G,S,D] as a value of the same elements has them.
struct FewHeads {
  ValueId value = kNoValue;
  Shape shape;
};

// Whether each element of dimension `axis` of `from` is repeated `times`, one after the other, in `to` [..., times,
// ...] behind it.
bool repeats_behind(const Shape& from, const Shape& to, int axis, int64_t times) {
  if (from.rank() != to.rank() || axis + 1 >= from.rank() || from[axis + 1] != 1 || to[axis + 1] != times) return false;
  for (int i = 0; i < from.rank(); ++i)
    if (i != axis + 1 && from[i] != to[i]) return false;
  return true;
}

class Matcher {
 public:
  explicit Matcher(const Rewriter& rewriter) : r_(rewriter) {}

  // Of which `id` [B,H,S,D] has each head several times.
  std::optional<FewHeads> match(ValueId id) const {
    if (!known(id) || r_.value(id).shape().rank() != 4) return std::nullopt;
    const Shape all = r_.value(id).shape();
    const Node* const made = r_.producer(id);
    if (made == nullptr || !made->domain.empty()) return std::nullopt;
    if (made->op_type == "Gather") return gathered(*made, all);
    // One head for all, without a dimension for the repetitions.
    if (const Node* const spread = spread_of(id)) {
      const Shape from = r_.value(spread->inputs[0]).shape();
      const bool one = from.rank() == 4 && from == Shape{all[0], 1, all[2], all[3]};
      return one ? std::optional(FewHeads{spread->inputs[0], from}) : std::nullopt;
    }
    if (made->op_type != "Reshape") return std::nullopt;
    const Node* const spread = spread_of(made->inputs[0]);
    if (spread == nullptr) return std::nullopt;
    const Shape from = r_.value(spread->inputs[0]).shape(), to = r_.value(made->inputs[0]).shape();
    if (from.rank() != 5 || from[1] == 0 || all[1] % from[1] != 0) return std::nullopt;
    const Shape few{all[0], from[1], all[2], all[3]};
    if (!repeats_behind(from, to, 1, all[1] / from[1]) || from != Shape{few[0], few[1], 1, few[2], few[3]})
      return std::nullopt;
    const Node* const narrow = r_.producer(spread->inputs[0]);
    const bool is_view =
        narrow != nullptr && narrow->domain.empty() && (narrow->op_type == "Reshape" || narrow->op_type == "Unsqueeze");
    if (is_view && known(narrow->inputs[0]) && r_.value(narrow->inputs[0]).shape() == few)
      return FewHeads{narrow->inputs[0], few};
    return FewHeads{spread->inputs[0], few};
  }

 private:
  bool known(ValueId id) const { return r_.is_float(id) && r_.value(id).fully_known(); }

  // The Expand or Tile that makes `id`, of known sizes.
  const Node* spread_of(ValueId id) const {
    const Node* spread = r_.made_by(id, "Expand");
    if (spread == nullptr) spread = r_.made_by(id, "Tile");
    return spread != nullptr && known(id) && known(spread->inputs[0]) ? spread : nullptr;
  }

  std::optional<FewHeads> gathered(const Node& node, const Shape& all) const {
    const Result<int> axis = read_gather_axis(node, 4);
    if (!axis.ok() || *axis != 1 || !known(node.inputs[0])) return std::nullopt;
    const Shape from = r_.value(node.inputs[0]).shape();
    const std::optional<std::vector<int64_t>> heads = integers_of(r_.constant(node.inputs[1]).get());
    if (!heads || from.rank() != 4 || std::ssize(*heads) != all[1] || from[1] == 0 || all[1] % from[1] != 0)
      return std::nullopt;
    const int64_t times = all[1] / from[1];
    for (int64_t i = 0; i < all[1]; ++i)
      if ((*heads)[i] != i / times) return std::nullopt;
    return FewHeads{node.inputs[0], from};
  }

  const Rewriter& r_;
};

}  // namespace

Status pass_grouped_heads(Graph& graph, const PassOptions&) {
  const auto is_attention = [](const Node& node) { return node.domain == "tenon" && node.op_type == "Attention"; };
  if (std::none_of(graph.nodes.begin(), graph.nodes.end(), is_attention)) return {};
  Rewriter rewriter(graph);
  const Matcher matcher(rewriter);
  for (NodeId i : rewriter.ids()) {
    if (rewriter.erased(i) || !is_attention(rewriter.node(i))) continue;
    Node fused = rewriter.node(i);
    const std::optional<FewHeads> k = matcher.match(fused.inputs[1]), v = matcher.match(fused.inputs[2]);
    if (!k || !v || k->shape[1] != v->shape[1]) continue;
    const auto as_heads = [&](const FewHeads& heads) {
      if (rewriter.value(heads.value).shape() == heads.shape) return heads.value;
      Value value = rewriter.value(heads.value);
      value.name += ":heads";
      value.set_shape(heads.shape);
      const std::string name = value.name;
      const ValueId made = rewriter.add_value(std::move(value));
      const ValueId shape = rewriter.add_constant(name + ":shape", make_int64_constant(heads.shape.dims()));
      rewriter.insert_before(i, make_node("Reshape", 13, name, {heads.value, shape}, {made}));
      return made;
    };
    fused.inputs[1] = as_heads(*k);
    fused.inputs[2] = as_heads(*v);
    rewriter.replace(i, std::move(fused));
  }
  rewriter.finish();
  return {};
}

}  // namespace tenon
