// Turns normalisation by the root of the mean square, written as several operators, into tenon.LayerNorm:
//   x / sqrt(mean(x * x) + epsilon) * scale
// over the last dimension.
#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "ops/norm.h"
#include "ops/reduce.h"
#include "plan/pass_rewriter.h"
#include "plan/passes.h"

namespace tenon {
namespace {

struct Normalized {
  ValueId x = kNoValue;
  float epsilon = 0;
};

class Matcher {
 public:
  explicit Matcher(const Rewriter& rewriter) : r_(rewriter) {}

  // x times the inverse of its root mean square, or divided by the root.
  std::optional<Normalized> match(const Node& last) const {
    if (!last.domain.empty() || last.inputs.size() != 2 || !r_.is_float(last.outputs[0])) return std::nullopt;
    if (last.op_type == "Div") {
      const std::optional<ValueId> square = radicand(last.inputs[1], 0.5F);
      return square ? match_square(*square, last.inputs[0]) : std::nullopt;
    }
    if (last.op_type != "Mul") return std::nullopt;
    for (size_t side = 0; side < 2; ++side)
      if (const std::optional<ValueId> square = inverted(last.inputs[side]))
        if (std::optional<Normalized> found = match_square(*square, last.inputs[1 - side])) return found;
    return std::nullopt;
  }

 private:
  // The node that makes `id` for this pattern alone.
  const Node* step(ValueId id, std::string_view op_type) const {
    return r_.read_once(id) ? r_.made_by(id, op_type) : nullptr;
  }

  // v of id = v^exponent: a root, or a Pow with that constant.
  std::optional<ValueId> radicand(ValueId id, float exponent) const {
    if (exponent == 0.5F)
      if (const Node* const root = step(id, "Sqrt")) return root->inputs[0];
    const Node* const pow = step(id, "Pow");
    if (pow == nullptr || r_.scalar_beside(pow->inputs[1], pow->inputs[0]) != exponent) return std::nullopt;
    return pow->inputs[0];
  }

  // v of id = 1 / sqrt(v).
  std::optional<ValueId> inverted(ValueId id) const {
    if (const Node* const inverse = step(id, "Reciprocal")) return radicand(inverse->inputs[0], 0.5F);
    if (const Node* const div = step(id, "Div");
        div != nullptr && r_.scalar_beside(div->inputs[0], div->inputs[1]) == 1.0F)
      return radicand(div->inputs[1], 0.5F);
    return radicand(id, -0.5F);
  }

  // `id` = mean(x * x), with or without a constant added.
  std::optional<Normalized> match_square(ValueId id, ValueId x) const {
    Normalized found{.x = x};
    if (const Node* const add = step(id, "Add")) {
      const auto parts = split_operands(*add, [&](ValueId a, ValueId b) { return r_.scalar_beside(a, b).has_value(); });
      if (!parts) return std::nullopt;
      found.epsilon = *r_.scalar(parts->first);
      id = parts->second;
    }
    const std::optional<ValueId> squares = mean_over_last(id);
    return squares && is_square_of(*squares, x) ? std::optional(found) : std::nullopt;
  }

  // Of which `id` is the mean over the last dimension, which is kept.
  std::optional<ValueId> mean_over_last(ValueId id) const {
    const Node* const mean = step(id, "ReduceMean");
    // At load, the mean of three dimensions became one.
    const Node* const pool = mean == nullptr ? step(id, "GlobalAveragePool") : nullptr;
    if (pool != nullptr)
      return r_.value(pool->inputs[0]).dims.size() == 3 ? std::optional(pool->inputs[0]) : std::nullopt;
    if (mean == nullptr) return std::nullopt;
    const std::optional<ReduceDesc> desc = constant_reduce(r_, *mean);
    const Value& x = r_.value(mean->inputs[0]);
    if (!desc || !desc->keepdims || desc->axes.size() != 1 || !x.has_rank) return std::nullopt;
    const int64_t axis = desc->axes[0];
    if (axis != -1 && axis != std::ssize(x.dims) - 1) return std::nullopt;
    return mean->inputs[0];
  }

  bool is_square_of(ValueId id, ValueId x) const {
    if (const Node* const mul = step(id, "Mul")) return mul->inputs[0] == x && mul->inputs[1] == x;
    const Node* const pow = step(id, "Pow");
    return pow != nullptr && pow->inputs[0] == x && r_.scalar_beside(pow->inputs[1], x) == 2.0F;
  }

  const Rewriter& r_;
};

// `id` as [count], where it is a constant whose other dimensions are 1 and that cannot raise the rank of the norm.
ValueId row_of(Rewriter& rewriter, ValueId id, int64_t count, int rank) {
  const ConstantRef& constant = rewriter.constant(id);
  if (constant == nullptr || constant->type != DataType::kFloat) return kNoValue;
  const Shape& shape = constant->shape;
  if (shape.rank() < 1 || shape.rank() > rank || shape.element_count() != count || shape[shape.rank() - 1] != count)
    return kNoValue;
  if (shape.rank() == 1) return id;
  auto flat = std::make_shared<Constant>(*constant);
  flat->shape = Shape{count};
  return rewriter.add_constant(rewriter.value(id).name + ":flat", std::move(flat));
}

// Makes norms, and the scales of those that have none: ones, as many as a row has elements.
class Maker {
 public:
  explicit Maker(Rewriter& rewriter) : rewriter_(rewriter) {}

  Status make(NodeId place, bool scaled) {
    const Node& last = rewriter_.node(place);
    ValueId normal = kNoValue, factor = kNoValue;
    const Node* node = &last;
    if (scaled) {
      if (last.op_type != "Mul" || !last.domain.empty()) return {};
      const auto parts =
          split_operands(last, [&](ValueId a, ValueId b) { return rewriter_.constant(a) && !rewriter_.constant(b); });
      if (!parts || !rewriter_.read_once(parts->second)) return {};
      std::tie(factor, normal) = *parts;
      node = rewriter_.producer(normal);
    }
    const std::optional<Normalized> found = node != nullptr ? Matcher(rewriter_).match(*node) : std::nullopt;
    if (!found || !rewriter_.is_float(found->x)) return {};
    const Value& x = rewriter_.value(found->x);
    if (!x.has_rank || x.dims.empty() || !x.dims.back().known()) return {};
    const int rank = static_cast<int>(x.dims.size());
    const int64_t count = x.dims.back().value;
    TENON_TRY_ASSIGN(const ValueId scale, scaled ? row_of(rewriter_, factor, count, rank) : ones(count));
    if (scale == kNoValue) return {};
    Node norm = make_internal("LayerNorm", last.name, {found->x, kNoValue, scale}, {last.outputs[0]});
    write_layer_norm(norm, rank - 1, found->epsilon, false);
    rewriter_.replace(place, std::move(norm));
    return {};
  }

 private:
  // kNoValue where the pass has made too much.
  Result<ValueId> ones(int64_t count) {
    const auto made = std::find_if(ones_.begin(), ones_.end(), [&](const auto& one) { return one.first == count; });
    if (made != ones_.end()) return made->second;
    if (count > INT32_MAX || !rewriter_.may_make(count * sizeof(float))) return kNoValue;
    std::byte* data = nullptr;
    TENON_TRY_ASSIGN(ConstantRef constant, make_constant(DataType::kFloat, Shape{count}, &data));
    std::fill_n(reinterpret_cast<float*>(data), count, 1.0F);
    const ValueId id = rewriter_.add_constant("ones:" + std::to_string(count), std::move(constant));
    ones_.emplace_back(count, id);
    return id;
  }

  Rewriter& rewriter_;
  std::vector<std::pair<int64_t, ValueId>> ones_;
};

}  // namespace

Status pass_root_mean_square_norms(Graph& graph, const PassOptions&) {
  Rewriter rewriter(graph);
  Maker maker(rewriter);
  // Those with a scale first, of which the ones without are a part.
  for (bool scaled : {true, false})
    for (NodeId i : rewriter.ids()) {
      if (!rewriter.erased(i)) TENON_TRY(maker.make(i, scaled));
    }
  rewriter.finish();
  return {};
}

}  // namespace tenon
