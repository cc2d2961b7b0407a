// Turns rotary embedding, written as several operators, into tenon.RotateHalf:
//   x * cos + concat(-x[half:], x[:half]) * sin,
// or with neighbours as pairs, of whole heads or of the first part of each.
#include <algorithm>
#include <array>
#include <optional>
#include <utility>

#include "ops/concat.h"
#include "ops/rotary.h"
#include "ops/slice.h"
#include "ops/split.h"
#include "ops/transpose.h"
#include "plan/pass_rewriter.h"
#include "plan/passes.h"

namespace tenon {
namespace {

// Elements of the last dimension of x.
struct Part {
  ValueId x = kNoValue;
  SliceRange range;
};

class Matcher {
 public:
  explicit Matcher(const Rewriter& rewriter) : r_(rewriter) {}

  // x * cos + r(x) * sin
  std::optional<Node> match_sum(const Node& add) const {
    if (add.op_type != "Add" || !add.domain.empty() || !r_.is_float(add.outputs[0])) return std::nullopt;
    for (size_t side = 0; side < 2; ++side) {
      const Node* const straight = product(add.inputs[side]);
      const Node* const turned = product(add.inputs[1 - side]);
      if (straight == nullptr || turned == nullptr) continue;
      for (size_t factor = 0; factor < 2; ++factor) {
        const ValueId rotated = turned->inputs[factor], sin = turned->inputs[1 - factor];
        if (!r_.read_once(rotated)) continue;
        bool interleaved = false;
        std::optional<Part> x = halves(rotated);
        if (!x) x = neighbours(rotated), interleaved = true;
        if (!x) continue;
        const auto operands = split_operands(*straight, [&](ValueId a, ValueId) { return a == x->x; });
        if (!operands || !rows_of(operands->second, x->range.count) || !rows_of(sin, x->range.count)) continue;
        Node node = make_internal("RotateHalf", add.name, {x->x, operands->second, sin}, add.outputs);
        write_rotate_half(node, interleaved, {});
        return node;
      }
    }
    return std::nullopt;
  }

  // The first elements of each row, turned, and the others as they are. A Concat says that both have the same rows.
  std::optional<Node> match_rows(const Node& concat) const {
    if (!is_concat_of_last(concat)) return std::nullopt;
    const Node* const turned = r_.made_by(concat.inputs[0], "RotateHalf", "tenon");
    if (turned == nullptr || !r_.read_once(concat.inputs[0])) return std::nullopt;
    const std::optional<Part> first = part(turned->inputs[0]), rest = part(concat.inputs[1]);
    if (!first || !rest || first->x != rest->x || first->range.start != 0 || first->range.step != 1)
      return std::nullopt;
    const int64_t depth = r_.value(first->x).dims.back().value;
    if (rest->range.step != 1 || rest->range.start != first->range.count ||
        rest->range.start + rest->range.count != depth)
      return std::nullopt;
    Node whole = *turned;
    whole.inputs[0] = first->x;
    whole.outputs = concat.outputs;
    return whole;
  }

  // The same of what a Transpose reads, if that keeps the last dimension.
  std::optional<Node> before_transpose(const Node& node) const {
    const ValueId x = node.inputs[0];
    const Node* const transpose = r_.made_by(x, "Transpose");
    if (transpose == nullptr || !r_.read_once(x) || !r_.value(x).has_rank) return std::nullopt;
    const int rank = static_cast<int>(r_.value(x).dims.size());
    Result<std::vector<int64_t>> perm = read_perm(*transpose, rank);
    if (!perm.ok() || perm->back() != rank - 1) return std::nullopt;
    Node moved = node;
    moved.inputs[0] = transpose->inputs[0];
    write_rotate_half(moved, rotates_neighbours(node), *std::move(perm));
    return moved;
  }

 private:
  const Node* product(ValueId id) const {
    const Node* const node = r_.read_once(id) ? r_.made_by(id, "Mul") : nullptr;
    return node != nullptr && node->inputs.size() == 2 ? node : nullptr;
  }

  // Floats with `count` in each row.
  bool rows_of(ValueId id, int64_t count) const {
    const Value& value = r_.value(id);
    return r_.is_float(id) && value.has_rank && !value.dims.empty() && value.dims.back().value == count;
  }

  bool is_concat_of_last(const Node& node) const {
    if (node.op_type != "Concat" || !node.domain.empty() || node.inputs.size() != 2) return false;
    const Value& y = r_.value(node.outputs[0]);
    if (!r_.is_float(node.outputs[0]) || !y.has_rank) return false;
    const Result<int> axis = read_concat_axis(node, static_cast<int>(y.dims.size()));
    return axis.ok() && *axis == std::ssize(y.dims) - 1;
  }

  // The elements of the last dimension, of known size, that a Slice or a Split takes.
  std::optional<Part> part(ValueId id) const {
    const Node* const taken = r_.producer(id);
    if (taken == nullptr || !taken->domain.empty() || (taken->op_type != "Slice" && taken->op_type != "Split"))
      return std::nullopt;
    const Value& x = r_.value(taken->inputs[0]);
    if (!r_.is_float(taken->inputs[0]) || !x.has_rank || x.dims.empty() || !x.dims.back().known()) return std::nullopt;
    const int rank = static_cast<int>(x.dims.size());
    Part part{.x = taken->inputs[0], .range = {}};
    if (taken->op_type == "Split") {
      const Result<int> axis = read_split_axis(*taken, rank);
      if (!axis.ok() || *axis != rank - 1) return std::nullopt;
      for (ValueId output : taken->outputs) {
        if (output == kNoValue || !r_.value(output).has_rank || !r_.value(output).dims.back().known())
          return std::nullopt;
        part.range.count = r_.value(output).dims.back().value;
        if (output == id) return part;
        part.range.start += part.range.count;
      }
      return std::nullopt;
    }
    if (has_slice_attributes(*taken)) return std::nullopt;
    std::array<int64_t, 4> bounds{0, 0, rank - 1, 1};  // start, end, axis, step
    for (size_t i = 0; i < bounds.size(); ++i) {
      const ValueId input = taken->input(i + 1);
      if (input == kNoValue && i == 3) continue;
      const std::optional<std::vector<int64_t>> given = integers_of(r_.constant(input).get());
      if (!given || given->size() != 1) return std::nullopt;
      bounds[i] = (*given)[0];
    }
    if (bounds[2] != -1 && bounds[2] != rank - 1) return std::nullopt;
    const Result<SliceRange> range = slice_range(bounds[0], bounds[1], bounds[3], x.dims.back().value);
    if (!range.ok()) return std::nullopt;
    part.range = *range;
    return part;
  }

  std::optional<Part> negated(ValueId id) const {
    const Node* const neg = r_.read_once(id) ? r_.made_by(id, "Neg") : nullptr;
    return neg != nullptr ? part(neg->inputs[0]) : std::nullopt;
  }

  // All elements of x from `id` = concat(-x[half:], x[:half]).
  std::optional<Part> halves(ValueId id) const {
    const Node* const concat = r_.made_by(id, "Concat");
    if (concat == nullptr || !is_concat_of_last(*concat)) return std::nullopt;
    const std::optional<Part> second = negated(concat->inputs[0]), first = part(concat->inputs[1]);
    if (!first || !second || first->x != second->x) return std::nullopt;
    const int64_t depth = r_.value(first->x).dims.back().value;
    if (first->range.start != 0 || first->range.step != 1 || second->range.step != 1 ||
        first->range.count != second->range.count || second->range.start * 2 != depth ||
        second->range.count * 2 != depth || depth == 0)
      return std::nullopt;
    return whole(first->x, depth);
  }

  // All elements of x from `id` = (-x1, x0, -x3, x2, ...), as a Reshape of the pairs (-x[1::2], x[0::2]).
  std::optional<Part> neighbours(ValueId id) const {
    const Node* const reshape = r_.made_by(id, "Reshape");
    const Node* const concat = reshape != nullptr ? r_.made_by(reshape->inputs[0], "Concat") : nullptr;
    if (concat == nullptr || !r_.read_once(reshape->inputs[0]) || !is_concat_of_last(*concat)) return std::nullopt;
    std::array<ValueId, 2> sides{};
    for (size_t i = 0; i < 2; ++i) {
      const Node* wide = r_.read_once(concat->inputs[i]) ? r_.made_by(concat->inputs[i], "Unsqueeze") : nullptr;
      if (wide == nullptr) wide = r_.made_by(concat->inputs[i], "Reshape");
      if (wide == nullptr) return std::nullopt;
      sides[i] = wide->inputs[0];
      // One element in the last dimension, and otherwise the same ones.
      const Value &from = r_.value(sides[i]), &to = r_.value(concat->inputs[i]);
      if (!from.has_rank || !to.has_rank || to.dims.size() != from.dims.size() + 1 || to.dims.back().value != 1)
        return std::nullopt;
      if (wide->op_type == "Reshape" && !(from.fully_known() && to.fully_known() && keeps_dims(from, to)))
        return std::nullopt;
    }
    const std::optional<Part> second = negated(sides[0]), first = part(sides[1]);
    if (!first || !second || first->x != second->x || !r_.same_shape(id, first->x)) return std::nullopt;
    const int64_t depth = r_.value(first->x).dims.back().value;
    if (first->range.start != 0 || first->range.step != 2 || second->range.step != 2 || second->range.start != 1 ||
        first->range.count * 2 != depth || second->range.count * 2 != depth || depth == 0)
      return std::nullopt;
    return whole(first->x, depth);
  }

  static bool keeps_dims(const Value& from, const Value& to) {
    for (size_t i = 0; i < from.dims.size(); ++i)
      if (from.dims[i].value != to.dims[i].value) return false;
    return true;
  }

  static Part whole(ValueId x, int64_t depth) { return {.x = x, .range = {.start = 0, .step = 1, .count = depth}}; }

  const Rewriter& r_;
};

}  // namespace

Status pass_rotary_embeddings(Graph& graph, const PassOptions&) {
  if (std::none_of(graph.nodes.begin(), graph.nodes.end(), [](const Node& node) { return node.op_type == "Neg"; }))
    return {};
  Rewriter rewriter(graph);
  const Matcher matcher(rewriter);
  const auto replace = [&](NodeId place, std::optional<Node> node) {
    if (node) rewriter.replace(place, *std::move(node));
  };
  bool found = false;
  for (NodeId i : rewriter.ids()) {
    if (rewriter.erased(i)) continue;
    replace(i, matcher.match_sum(rewriter.node(i)));
    replace(i, matcher.match_rows(rewriter.node(i)));
    found = found || rewriter.node(i).op_type == "RotateHalf";
  }
  if (found)
    for (NodeId i : rewriter.ids()) {
      if (rewriter.erased(i) || rewriter.node(i).op_type != "RotateHalf") continue;
      replace(i, matcher.before_transpose(rewriter.node(i)));
    }
  rewriter.finish();
  return {};
}

}  // namespace tenon
