// Turns layer normalisation, and normalisation by the root of the mean square, written as one operator or as several,
// into tenon.LayerNorm, and merges the addition before it.
#include <algorithm>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "ops/axes.h"
#include "ops/norm.h"
#include "ops/reduce.h"
#include "plan/pass_rewriter.h"
#include "plan/passes.h"

namespace tenon {
namespace {

// `id` has exactly the dimensions that `x` has from `axis` on.
bool covers(const Rewriter& rewriter, ValueId id, const Value& x, size_t axis) {
  if (!rewriter.is_float(id)) return false;
  const Value& scale = rewriter.value(id);
  if (!scale.fully_known() || scale.dims.size() != x.dims.size() - axis) return false;
  for (size_t i = axis; i < x.dims.size(); ++i)
    if (x.dims[i].value != scale.dims[i - axis].value) return false;
  return true;
}

// A constant of N elements whose leading dimensions are 1: as [N].
ValueId flat_constant(Rewriter& rewriter, ValueId id, int64_t count, size_t rank) {
  const ConstantRef constant = rewriter.constant(id);
  if (!constant || constant->type != DataType::kFloat || constant->shape.rank() < 1) return kNoValue;
  if (constant->shape.dims().size() > rank) return kNoValue;
  if (constant->as<float>().size() != static_cast<size_t>(count)) return kNoValue;
  if (constant->shape[constant->shape.rank() - 1] != count) return kNoValue;
  if (constant->shape.rank() == 1) return id;
  auto flat = std::make_shared<Constant>(*constant);
  flat->shape = Shape{count};
  return rewriter.add_constant(rewriter.value(id).name + ":flat", std::move(flat));
}

// x of ReduceMean(x) over the last dimension, which is kept. At load, that of three dimensions became a global pool.
std::optional<ValueId> mean_over_last(const Rewriter& rewriter, ValueId id) {
  if (const Node* pool = rewriter.made_by(id, "GlobalAveragePool"))
    return rewriter.value(id).dims.size() == 3 ? std::optional(pool->inputs[0]) : std::nullopt;
  const Node* node = rewriter.made_by(id, "ReduceMean");
  if (!node) return std::nullopt;
  const std::optional<ReduceDesc> mean = constant_reduce(rewriter, *node);
  const Value& x = rewriter.value(node->inputs[0]);
  if (!mean || !mean->keepdims || mean->axes.size() != 1 || !x.has_rank) return std::nullopt;
  const int64_t axis = mean->axes[0];
  if (axis != -1 && axis != static_cast<int64_t>(x.dims.size()) - 1) return std::nullopt;
  return node->inputs[0];
}

// The square of `d`: d * d or Pow(d, 2). An exponent of higher rank than `d` would raise the rank of the result.
bool is_square_of(const Rewriter& rewriter, ValueId id, ValueId d) {
  if (const Node* mul = rewriter.made_by(id, "Mul")) return mul->inputs[0] == d && mul->inputs[1] == d;
  const Node* pow = rewriter.made_by(id, "Pow");
  return pow && pow->inputs[0] == d && rewriter.scalar_beside(pow->inputs[1], d) == 2.0f;
}

struct Normalized {
  ValueId x = kNoValue;
  float epsilon = 0;
};

// d / sqrt(mean(d * d) + epsilon) with d = x - mean(x).
std::optional<Normalized> match_normalized(const Rewriter& rewriter, ValueId id) {
  if (!rewriter.read_once(id)) return std::nullopt;
  ValueId d = kNoValue, root = kNoValue;
  if (const Node* div = rewriter.made_by(id, "Div")) {
    d = div->inputs[0];
    root = div->inputs[1];
  } else if (const Node* mul = rewriter.made_by(id, "Mul")) {
    auto parts = split_operands(*mul, [&](ValueId a, ValueId) { return rewriter.made_by(a, "Reciprocal") != nullptr; });
    if (!parts || !rewriter.read_once(parts->first)) return std::nullopt;
    d = parts->second;
    root = rewriter.made_by(parts->first, "Reciprocal")->inputs[0];
  }
  const Node* sub = rewriter.made_by(d, "Sub");
  const Node* sqrt = rewriter.made_by(root, "Sqrt");
  if (!sub || !sqrt || !rewriter.read_once(root) || rewriter.is_output(d)) return std::nullopt;
  const Node* add = rewriter.made_by(sqrt->inputs[0], "Add");
  if (!add || !rewriter.read_once(sqrt->inputs[0])) return std::nullopt;
  auto parts = split_operands(*add, [&](ValueId a, ValueId b) { return rewriter.scalar_beside(a, b).has_value(); });
  if (!parts || !rewriter.read_once(parts->second)) return std::nullopt;
  std::optional<ValueId> square = mean_over_last(rewriter, parts->second);
  if (!square || !rewriter.read_once(*square) || !is_square_of(rewriter, *square, d)) return std::nullopt;
  std::optional<ValueId> x = mean_over_last(rewriter, sub->inputs[1]);
  if (!x || *x != sub->inputs[0] || !rewriter.read_once(sub->inputs[1])) return std::nullopt;
  // d is read by the square (once or twice) and by the quotient, and by nobody else.
  const int32_t readers = rewriter.made_by(*square, "Mul") ? 3 : 2;
  if (rewriter.uses(d) != readers) return std::nullopt;
  return Normalized{*x, *rewriter.scalar(parts->first)};
}

// v of id = v^exponent, a root or a Pow with that constant, that nobody else reads.
std::optional<ValueId> radicand(const Rewriter& rewriter, ValueId id, float exponent) {
  if (!rewriter.read_once(id)) return std::nullopt;
  if (const Node* root = rewriter.made_by(id, "Sqrt"); root && exponent == 0.5f) return root->inputs[0];
  const Node* pow = rewriter.made_by(id, "Pow");
  const bool fits = pow && rewriter.scalar_beside(pow->inputs[1], pow->inputs[0]) == exponent;
  return fits ? std::optional(pow->inputs[0]) : std::nullopt;
}

// v of id = 1 / sqrt(v).
std::optional<ValueId> inverse_radicand(const Rewriter& rewriter, ValueId id) {
  if (!rewriter.read_once(id)) return std::nullopt;
  if (const Node* inverse = rewriter.made_by(id, "Reciprocal")) return radicand(rewriter, inverse->inputs[0], 0.5f);
  if (const Node* div = rewriter.made_by(id, "Div"))
    if (rewriter.scalar_beside(div->inputs[0], div->inputs[1]) == 1.0f) return radicand(rewriter, div->inputs[1], 0.5f);
  return radicand(rewriter, id, -0.5f);
}

// `last` is x / sqrt(mean(x * x) + epsilon), or the product of x and the inverse.
std::optional<Normalized> match_root_mean_square(const Rewriter& rewriter, const Node& last) {
  if (!last.domain.empty() || (last.op_type != "Mul" && last.op_type != "Div") || !rewriter.is_float(last.outputs[0]))
    return std::nullopt;
  const bool divides = last.op_type == "Div";
  for (size_t side = divides ? 1 : 0; side < 2; ++side) {
    const ValueId factor = last.inputs[side];
    const std::optional<ValueId> sum = divides ? radicand(rewriter, factor, 0.5f) : inverse_radicand(rewriter, factor);
    if (!sum || !rewriter.read_once(*sum)) continue;
    Normalized found{last.inputs[1 - side], 0};
    ValueId mean = *sum;
    if (const Node* add = rewriter.made_by(*sum, "Add")) {
      auto parts = split_operands(*add, [&](ValueId a, ValueId b) { return rewriter.scalar_beside(a, b).has_value(); });
      if (!parts) continue;
      mean = parts->second;
      found.epsilon = *rewriter.scalar(parts->first);
    }
    const std::optional<ValueId> square = rewriter.read_once(mean) ? mean_over_last(rewriter, mean) : std::nullopt;
    if (square && rewriter.read_once(*square) && is_square_of(rewriter, *square, found.x)) return found;
  }
  return std::nullopt;
}

// LayerNormalization or RMSNormalization whose other outputs nobody reads.
std::optional<Node> from_operator(const Rewriter& rewriter, const Node& node) {
  if (node.inputs.size() < 2) return std::nullopt;
  for (size_t i = 1; i < node.outputs.size(); ++i)
    if (rewriter.uses(node.outputs[i]) > 0) return std::nullopt;
  const Value& x = rewriter.value(node.inputs[0]);
  if (x.type != DataType::kFloat || !x.has_rank || !rewriter.is_float(node.outputs[0])) return std::nullopt;
  const LayerNormForm form = read_layer_norm_form(node);
  const Result<int> axis = normalized_axis(form.axis, static_cast<int>(x.dims.size()));
  if (!axis.ok() || !form.stashes_float) return std::nullopt;
  for (size_t i = 1; i < node.inputs.size() && i < 3; ++i)
    if (node.inputs[i] != kNoValue && !covers(rewriter, node.inputs[i], x, *axis)) return std::nullopt;
  Node norm = make_internal("LayerNorm", node.name, {node.inputs[0], kNoValue, node.inputs[1]}, {node.outputs[0]});
  if (node.input(2) != kNoValue) norm.inputs.push_back(node.inputs[2]);
  write_layer_norm(norm, *axis, form.epsilon, form.subtract_mean);
  return norm;
}

// normalized * scale
std::optional<Node> from_scale(Rewriter& rewriter, const Node& node) {
  auto parts = split_operands(
      node, [&](ValueId a, ValueId b) { return rewriter.constant(a) != nullptr && rewriter.constant(b) == nullptr; });
  if (!parts || !rewriter.is_float(node.outputs[0])) return std::nullopt;
  std::optional<Normalized> found = match_normalized(rewriter, parts->second);
  if (!found) return std::nullopt;
  const Value& x = rewriter.value(found->x);
  if (!x.has_rank || x.dims.empty() || !x.dims.back().known()) return std::nullopt;
  const size_t rank = x.dims.size();
  const ValueId scale = flat_constant(rewriter, parts->first, x.dims.back().value, rank);
  if (scale == kNoValue) return std::nullopt;
  Node norm = make_internal("LayerNorm", node.name, {found->x, kNoValue, scale}, {node.outputs[0]});
  write_layer_norm(norm, static_cast<int>(rank) - 1, found->epsilon);
  return norm;
}

// Scales of norms that have none: ones, as many as a row has elements.
class Ones {
 public:
  // kNoValue where there is no memory for them, or the pass has made too much.
  ValueId of(Rewriter& rewriter, int64_t count) {
    const auto [found, fresh] = made_.try_emplace(count, kNoValue);
    if (!fresh || count > INT32_MAX || !rewriter.may_make(count * sizeof(float))) return found->second;
    std::byte* data = nullptr;
    Result<ConstantRef> ones = make_constant(DataType::kFloat, Shape{count}, &data);
    if (!ones.ok()) return kNoValue;
    std::fill_n(reinterpret_cast<float*>(data), count, 1.0f);
    return found->second = rewriter.add_constant("ones:" + std::to_string(count), *std::move(ones));
  }

 private:
  std::map<int64_t, ValueId> made_;
};

// x by the root of its mean square, times the scale where `scaled`.
std::optional<Node> from_root_mean_square(Rewriter& rewriter, const Node& node, bool scaled, Ones& ones) {
  const Node* quotient = &node;
  ValueId scale = kNoValue;
  if (scaled) {
    if (node.op_type != "Mul" || !node.domain.empty()) return std::nullopt;
    auto parts = split_operands(
        node, [&](ValueId a, ValueId b) { return rewriter.constant(a) != nullptr && rewriter.constant(b) == nullptr; });
    if (!parts || !rewriter.read_once(parts->second)) return std::nullopt;
    quotient = rewriter.producer(parts->second);
    scale = parts->first;
  }
  const std::optional<Normalized> found = quotient ? match_root_mean_square(rewriter, *quotient) : std::nullopt;
  if (!found || !rewriter.is_float(found->x)) return std::nullopt;
  const Value& x = rewriter.value(found->x);
  if (!x.has_rank || x.dims.empty() || !x.dims.back().known()) return std::nullopt;
  const size_t rank = x.dims.size();
  const int64_t count = x.dims.back().value;
  scale = scaled ? flat_constant(rewriter, scale, count, rank) : ones.of(rewriter, count);
  if (scale == kNoValue) return std::nullopt;
  Node norm = make_internal("LayerNorm", node.name, {found->x, kNoValue, scale}, {node.outputs[0]});
  write_layer_norm(norm, static_cast<int>(rank) - 1, found->epsilon, false);
  return norm;
}

// LayerNorm + bias
std::optional<Node> from_bias(Rewriter& rewriter, const Node& node) {
  auto parts = split_operands(node, [&](ValueId a, ValueId b) {
    return rewriter.constant(a) != nullptr && rewriter.made_by(b, "LayerNorm", "tenon") != nullptr;
  });
  if (!parts || !rewriter.read_once(parts->second)) return std::nullopt;
  const Node* norm = rewriter.made_by(parts->second, "LayerNorm", "tenon");
  const Value& x = rewriter.value(norm->inputs[0]);
  if (norm->input(3) != kNoValue || norm->outputs.size() != 1 || !x.has_rank) return std::nullopt;
  const Result<int> axis = normalized_axis(read_layer_norm_form(*norm).axis, static_cast<int>(x.dims.size()));
  if (!axis.ok() || *axis != static_cast<int>(x.dims.size()) - 1 || !x.dims.back().known()) return std::nullopt;
  const ValueId bias = flat_constant(rewriter, parts->first, x.dims.back().value, x.dims.size());
  if (bias == kNoValue) return std::nullopt;
  Node fused = *rewriter.made_by(parts->second, "LayerNorm", "tenon");
  fused.inputs.resize(4, kNoValue);
  fused.inputs[3] = bias;
  fused.outputs = {node.outputs[0]};
  return fused;
}

}  // namespace

Status pass_layer_norms(Graph& graph, const PassOptions&) {
  Rewriter rewriter(graph);
  for (NodeId i : rewriter.ids()) {
    if (rewriter.erased(i)) continue;
    const Node& node = rewriter.node(i);
    if (!node.domain.empty() || node.outputs.empty() || node.outputs[0] == kNoValue) continue;
    std::optional<Node> norm;
    if (node.op_type == "LayerNormalization" || node.op_type == "RMSNormalization")
      norm = from_operator(rewriter, node);
    if (node.op_type == "Mul") norm = from_scale(rewriter, node);
    if (node.op_type == "Add") norm = from_bias(rewriter, node);
    if (norm) rewriter.replace(i, std::move(*norm));
  }
  rewriter.finish();
  return {};
}

Status pass_root_mean_square_norms(Graph& graph, const PassOptions&) {
  const auto is_mean = [](const Node& node) {
    return node.op_type == "ReduceMean" || node.op_type == "GlobalAveragePool";
  };
  if (std::none_of(graph.nodes.begin(), graph.nodes.end(), is_mean)) return {};
  Rewriter rewriter(graph);
  Ones ones;
  // Those with a scale first, of which the ones without are a part.
  for (bool scaled : {true, false})
    for (NodeId i : rewriter.ids()) {
      if (rewriter.erased(i)) continue;
      std::optional<Node> norm = from_root_mean_square(rewriter, rewriter.node(i), scaled, ones);
      if (norm) rewriter.replace(i, *std::move(norm));
    }
  rewriter.finish();
  return {};
}

Status pass_skip_layer_norms(Graph& graph, const PassOptions&) {
  Rewriter rewriter(graph);
  for (NodeId i : rewriter.ids()) {
    if (rewriter.erased(i)) continue;
    const Node& node = rewriter.node(i);
    if (node.domain != "tenon" || node.op_type != "LayerNorm" || node.input(1) != kNoValue) continue;
    const ValueId sum = node.inputs[0];
    const Node* add = rewriter.made_by(sum, "Add");
    if (!add || add->inputs.size() != 2 || !rewriter.is_float(sum)) continue;
    if (!rewriter.same_shape(add->inputs[0], sum) || !rewriter.same_shape(add->inputs[1], sum)) continue;
    const bool parameters_first = std::all_of(node.inputs.begin() + 2, node.inputs.end(), [&](ValueId id) {
      return id == kNoValue || rewriter.constant(id) != nullptr;
    });
    if (!parameters_first) continue;
    Node fused = node;
    fused.inputs[0] = add->inputs[0];
    fused.inputs[1] = add->inputs[1];
    if (rewriter.read_once(sum)) {
      rewriter.replace(i, std::move(fused));
      continue;
    }
    // Others read the sum too, perhaps before this node: the fused one stands where the addition stood.
    fused.outputs = {node.outputs[0], sum};
    const NodeId place = rewriter.producer_id(sum);
    rewriter.replace(place, std::move(fused));
    rewriter.erase(i);
  }
  rewriter.finish();
  return {};
}

}  // namespace tenon
