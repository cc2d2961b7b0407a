// Turns normalisation by two moments, as TensorFlow's converters write it, into tenon.LayerNorm:
//   mean = sum(x) / n,  variance = max(0, sum(x * x) / n - mean * mean),
//   y = (x - mean) * (scale / sqrt(variance + epsilon)) + bias
// along any one dimension; if it is not the last, between two Transposes.
#include <cmath>
#include <optional>
#include <utility>

#include "ops/axes.h"
#include "ops/reduce.h"
#include "plan/pass_rewriter.h"
#include "plan/passes.h"

namespace tenon {
namespace {

struct Moments {
  ValueId x = kNoValue;
  int64_t axis = 0;
  float epsilon = 0;
  ValueId scale = kNoValue, bias = kNoValue;
};

class Matcher {
 public:
  explicit Matcher(const Rewriter& rewriter) : r_(rewriter) {}

  std::optional<Moments> match(const Node& last) const {
    auto parts = constant_beside(last, "Add");
    if (!parts) return std::nullopt;
    Moments found;
    found.bias = parts->first;
    const Node* product = step(parts->second, "Mul");
    if (!product || product->inputs.size() != 2) return std::nullopt;
    for (size_t side = 0; side < 2; ++side) {
      const Node* centred = step(product->inputs[side], "Sub");
      const Node* factor = step(product->inputs[1 - side], "Mul");
      if (!centred || !factor) continue;
      found.x = centred->inputs[0];
      const ValueId mean = without_reshape(centred->inputs[1]);
      if (!is_mean_of(mean, found.x, found.axis)) continue;
      auto scaled = constant_beside(*factor, "Mul");
      if (!scaled) continue;
      found.scale = scaled->first;
      std::optional<float> epsilon = inverse_deviation(scaled->second, found.x, mean, found.axis);
      if (!epsilon) continue;
      found.epsilon = *epsilon;
      return found;
    }
    return std::nullopt;
  }

 private:
  // The node that makes `id` for this pattern alone.
  const Node* step(ValueId id, std::string_view op_type) const {
    return r_.read_once(id) ? r_.made_by(id, op_type) : nullptr;
  }

  std::optional<std::pair<ValueId, ValueId>> constant_beside(const Node& node, std::string_view op_type) const {
    if (node.op_type != op_type || !node.domain.empty()) return std::nullopt;
    return split_operands(node, [&](ValueId a, ValueId b) { return r_.constant(a) && !r_.constant(b); });
  }

  // Sums that dropped their dimension come back through a Reshape.
  ValueId without_reshape(ValueId id) const {
    const Node* reshape = r_.made_by(id, "Reshape");
    return reshape ? reshape->inputs[0] : id;
  }

  // id = sum(of) / n along one dimension, with or without keeping it.
  bool is_mean_of(ValueId id, ValueId of, int64_t& axis) const {
    const Node* mul = r_.made_by(id, "Mul");
    if (!mul) return false;
    auto parts = constant_beside(*mul, "Mul");
    if (!parts || !r_.scalar(parts->first)) return false;
    const Node* sum = step(parts->second, "ReduceSum");
    if (!sum || sum->inputs[0] != of || !r_.value(of).fully_known()) return false;
    const std::optional<ReduceDesc> desc = constant_reduce(r_, *sum);
    if (!desc || desc->axes.size() != 1) return false;
    const Shape shape = r_.value(of).shape();
    const Result<int> found = normalized_axis(desc->axes[0], shape.rank());
    if (!found.ok()) return false;
    axis = *found;
    const double n = static_cast<double>(shape[static_cast<int>(axis)]);
    return n > 0 && std::fabs(*r_.scalar(parts->first) * n - 1) < 1e-5;
  }

  // 1 / sqrt(variance + epsilon): epsilon.
  std::optional<float> inverse_deviation(ValueId id, ValueId x, ValueId mean, int64_t axis) const {
    const Node* inverse = step(id, "Reciprocal");
    const Node* root = inverse ? step(inverse->inputs[0], "Sqrt") : nullptr;
    const Node* sum = root ? step(root->inputs[0], "Add") : nullptr;
    if (!sum) return std::nullopt;
    auto parts = constant_beside(*sum, "Add");
    if (!parts || !r_.scalar(parts->first)) return std::nullopt;
    ValueId variance = parts->second;
    if (const Node* reshape = step(variance, "Reshape")) variance = reshape->inputs[0];
    const Node* positive = step(variance, "Max");
    if (positive) {
      auto zero = constant_beside(*positive, "Max");
      if (!zero || r_.scalar(zero->first) != 0.0f) return std::nullopt;
      variance = zero->second;
    }
    const Node* difference = step(variance, "Sub");
    if (!difference || difference->inputs.size() != 2) return std::nullopt;
    const Node* square_of_mean = step(difference->inputs[1], "Mul");
    if (!square_of_mean || square_of_mean->inputs[0] != mean || square_of_mean->inputs[1] != mean) return std::nullopt;
    const ValueId mean_of_squares = difference->inputs[0];
    const Node* mul = step(mean_of_squares, "Mul");
    auto scaled = mul ? constant_beside(*mul, "Mul") : std::nullopt;
    const Node* total = scaled ? step(scaled->second, "ReduceSum") : nullptr;
    const Node* square = total ? step(total->inputs[0], "Mul") : nullptr;
    if (!square || square->inputs[0] != x || square->inputs[1] != x) return std::nullopt;
    int64_t other_axis = -1;
    if (!is_mean_of(mean_of_squares, total->inputs[0], other_axis) || other_axis != axis) return std::nullopt;
    return r_.scalar(parts->first);
  }

  const Rewriter& r_;
};

// n elements that lie along `axis` of a value of `rank`: shape [1,n,1] or shorter; as [n].
ConstantRef along_axis(const ConstantRef& constant, int64_t axis, int rank, int64_t n) {
  if (!constant || constant->type != DataType::kFloat || constant->shape.rank() > rank) return nullptr;
  const int place = static_cast<int>(axis) - (rank - constant->shape.rank());
  if (place < 0 || constant->as<float>().size() != static_cast<size_t>(n) || constant->shape[place] != n)
    return nullptr;
  auto flat = std::make_shared<Constant>(*constant);
  flat->shape = Shape{n};
  return flat;
}

}  // namespace

Status pass_moment_norms(Graph& graph, const PassOptions&) {
  Rewriter rewriter(graph);
  for (NodeId i : rewriter.ids()) {
    if (rewriter.erased(i)) continue;
    const Node& last = rewriter.node(i);
    if (!last.domain.empty() || last.op_type != "Add" || !rewriter.is_float(last.outputs[0])) continue;
    std::optional<Moments> found = Matcher(rewriter).match(last);
    if (!found || !rewriter.same_shape(found->x, last.outputs[0])) continue;
    const Shape shape = rewriter.value(found->x).shape();
    const int rank = shape.rank();
    const int64_t n = shape[static_cast<int>(found->axis)];
    ConstantRef scale = along_axis(rewriter.constant(found->scale), found->axis, rank, n);
    ConstantRef bias = along_axis(rewriter.constant(found->bias), found->axis, rank, n);
    if (!scale || !bias) continue;
    const std::string name = rewriter.value(last.outputs[0]).name;
    const ValueId scale_id = rewriter.add_constant(name + ":scale", std::move(scale));
    const ValueId bias_id = rewriter.add_constant(name + ":bias", std::move(bias));
    ValueId in = found->x, out = last.outputs[0];
    Node back;
    if (found->axis != rank - 1) {
      std::vector<int64_t> perm;
      perm.reserve(rank);
      Shape moved_shape;
      for (int64_t axis = 0; axis < rank; ++axis) perm.push_back(axis);
      std::swap(perm[found->axis], perm.back());
      for (int64_t axis : perm) moved_shape.push_back(shape[static_cast<int>(axis)]);
      Value moved = rewriter.value(found->x);
      moved.name = name + ":before";
      moved.set_shape(moved_shape);
      Value normal = moved;
      normal.name = name + ":normal";
      Node transpose;
      transpose.name = last.name;
      transpose.op_type = "Transpose";
      transpose.since_version = 13;
      // Swapping two dimensions is its own inverse.
      transpose.set_ints("perm", std::move(perm));
      transpose.inputs = {in};
      in = rewriter.add_value(std::move(moved));
      out = rewriter.add_value(std::move(normal));
      transpose.outputs = {in};
      back = transpose;
      back.inputs = {out};
      back.outputs = last.outputs;
      rewriter.insert_before(i, std::move(transpose));
    }
    Node norm = make_internal("LayerNorm", last.name, {in, kNoValue, scale_id, bias_id}, {out});
    norm.set_int("axis", rank - 1);
    norm.set_float("epsilon", found->epsilon);
    if (back.op_type.empty()) {
      rewriter.replace(i, std::move(norm));
    } else {
      rewriter.insert_before(i, std::move(norm));
      rewriter.replace(i, std::move(back));
    }
  }
  rewriter.finish();
  return {};
}

}  // namespace tenon
