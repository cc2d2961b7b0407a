#include "ep/cuda/compute/half_islands.h"

#include <optional>

#include "ep/cuda/compute/lowering.h"
#include "plan/pass_rewriter.h"

namespace tenon::cuda {

namespace {

bool is_half(DataType type) { return type == DataType::kFloat16 || type == DataType::kBfloat16; }

// x of a Cast of 16-bit floats to float32.
ValueId widened(const Rewriter& rewriter, ValueId id) {
  const Node* const cast = rewriter.made_by(id, "Cast");
  if (cast == nullptr || !rewriter.is_float(id) || !is_half(rewriter.value(cast->inputs[0]).type)) return kNoValue;
  return cast->inputs[0];
}

bool is_last_axis(const Rewriter& rewriter, const Node& reduce) {
  const std::optional<ReduceDesc> desc = constant_reduce(rewriter, reduce);
  const Value& x = rewriter.value(reduce.inputs[0]);
  if (!desc || !desc->keepdims || desc->axes.size() != 1) return false;
  return desc->axes[0] == -1 || (x.has_rank && desc->axes[0] == static_cast<int64_t>(x.dims.size()) - 1);
}

struct Root {
  ValueId x = kNoValue;  // float32
  float epsilon = 0;
};

// x / sqrt(mean(x^2) + epsilon), or x times the reciprocal of that.
std::optional<Root> match_root(const Rewriter& rewriter, ValueId id) {
  if (!rewriter.read_once(id)) return std::nullopt;
  ValueId x = kNoValue, root = kNoValue;
  if (const Node* div = rewriter.made_by(id, "Div")) {
    x = div->inputs[0], root = div->inputs[1];
  } else if (const Node* mul = rewriter.made_by(id, "Mul")) {
    const auto parts =
        split_operands(*mul, [&](ValueId a, ValueId) { return rewriter.made_by(a, "Reciprocal") != nullptr; });
    if (!parts) return std::nullopt;
    x = parts->second;
    root = rewriter.made_by(parts->first, "Reciprocal")->inputs[0];
  }
  const Node* const sqrt = rewriter.made_by(root, "Sqrt");
  const Node* const add = sqrt == nullptr ? nullptr : rewriter.made_by(sqrt->inputs[0], "Add");
  if (add == nullptr) return std::nullopt;
  const auto parts = split_operands(*add, [&](ValueId a, ValueId) { return rewriter.scalar(a).has_value(); });
  if (!parts) return std::nullopt;
  const Node* const mean = rewriter.made_by(parts->second, "ReduceMean");
  if (mean == nullptr || !is_last_axis(rewriter, *mean)) return std::nullopt;
  const Node* const mul = rewriter.made_by(mean->inputs[0], "Mul");
  const Node* const pow = rewriter.made_by(mean->inputs[0], "Pow");
  const bool squares = (mul != nullptr && mul->inputs[0] == x && mul->inputs[1] == x) ||
                       (pow != nullptr && pow->inputs[0] == x && rewriter.scalar(pow->inputs[1]) == 2.0F);
  return squares ? std::optional(Root{x, *rewriter.scalar(parts->first)}) : std::nullopt;
}

// A constant of float32 in 16 bits.
ValueId narrowed(Rewriter& rewriter, ValueId id, DataType type) {
  const ConstantRef from = rewriter.constant(id);
  if (from == nullptr) return kNoValue;
  if (from->type == type) return id;
  if (from->type != DataType::kFloat || !rewriter.may_make(from->size_bytes / 2)) return kNoValue;
  std::byte* data = nullptr;
  Result<ConstantRef> made = make_constant(type, from->shape, &data);
  if (!made.ok()) return kNoValue;
  store_floats(from->as<float>(), type, data);
  return rewriter.add_constant(rewriter.value(id).name + ":narrow", *std::move(made));
}

bool scales_last_axis(const Rewriter& rewriter, ValueId scale, ValueId x) {
  const Value& of = rewriter.value(x);
  const ConstantRef constant = rewriter.constant(scale);
  return constant != nullptr && constant->shape.rank() == 1 && of.has_rank && !of.dims.empty() &&
         of.dims.back().known() && constant->shape[0] == of.dims.back().value;
}

bool replace_norm(Rewriter& rewriter, NodeId here, ValueId x, ValueId scale, float epsilon) {
  const Node node = rewriter.node(here);
  const DataType type = rewriter.value(node.outputs[0]).type;
  if (x == kNoValue || rewriter.value(x).type != type || !scales_last_axis(rewriter, scale, x)) return false;
  const ValueId narrow = narrowed(rewriter, scale, type);
  if (narrow == kNoValue) return false;
  Node norm = make_node("RMSNormalization", 23, node.name, {x, narrow}, node.outputs);
  norm.set_int("axis", -1);
  norm.set_float("epsilon", epsilon);
  rewriter.replace(here, std::move(norm));
  return true;
}

// Cast(root(x)) * scale, or Cast(root(x) * scale).
bool root_norm(Rewriter& rewriter, NodeId here) {
  const Node& node = rewriter.node(here);
  if (!node.domain.empty() || node.outputs.empty() || !is_half(rewriter.value(node.outputs[0]).type)) return false;
  const auto is_constant = [&](ValueId a, ValueId) { return rewriter.constant(a) != nullptr; };
  if (node.op_type == "Mul") {
    const auto parts = split_operands(node, is_constant);
    const Node* const cast = parts ? rewriter.made_by(parts->second, "Cast") : nullptr;
    if (cast == nullptr || !rewriter.read_once(parts->second)) return false;
    const std::optional<Root> root = match_root(rewriter, cast->inputs[0]);
    return root && replace_norm(rewriter, here, widened(rewriter, root->x), parts->first, root->epsilon);
  }
  if (node.op_type != "Cast" || !rewriter.read_once(node.inputs[0])) return false;
  const Node* const mul = rewriter.made_by(node.inputs[0], "Mul");
  const auto parts = mul == nullptr ? std::nullopt : split_operands(*mul, is_constant);
  if (!parts) return false;
  const std::optional<Root> root = match_root(rewriter, parts->second);
  return root && replace_norm(rewriter, here, widened(rewriter, root->x), parts->first, root->epsilon);
}

// Cast(Softmax(Cast(x))).
bool softmax(Rewriter& rewriter, NodeId here) {
  const Node node = rewriter.node(here);
  if (node.op_type != "Cast" || !node.domain.empty() || !is_half(rewriter.value(node.outputs[0]).type)) return false;
  const Node* const made = rewriter.made_by(node.inputs[0], "Softmax");
  if (made == nullptr || !rewriter.read_once(node.inputs[0])) return false;
  const ValueId x = widened(rewriter, made->inputs[0]);
  if (x == kNoValue || rewriter.value(x).type != rewriter.value(node.outputs[0]).type) return false;
  Node narrow = *made;
  narrow.inputs = {x};
  narrow.outputs = node.outputs;
  rewriter.replace(here, std::move(narrow));
  return true;
}

}  // namespace

void join_half_islands(Graph& graph) {
  Rewriter rewriter(graph);
  for (NodeId i : rewriter.ids())
    if (!rewriter.erased(i)) (void)(root_norm(rewriter, i) || softmax(rewriter, i));
  rewriter.finish();
}

}  // namespace tenon::cuda
