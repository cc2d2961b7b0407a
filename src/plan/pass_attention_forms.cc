// Brings what exporters write around attention into the form that pass_attention.cc finds: factors on queries and keys,
// heads in the batch, masks that repeat for every query, those of windows, and NaN that becomes 0 after the softmax.
#include <algorithm>
#include <array>
#include <map>
#include <optional>
#include <span>
#include <utility>

#include "ops/matmul.h"
#include "ops/softmax.h"
#include "ops/transpose.h"
#include "plan/pass_rewriter.h"
#include "plan/passes.h"

namespace tenon {
namespace {

// Where(IsNaN(p), 0, p) with p = Softmax(x) becomes tenon.GuardedSoftmax.
bool guarded_softmax(Rewriter& rewriter, NodeId here) {
  if (rewriter.node(here).op_type != "Where") return false;
  const Node& node = rewriter.node(here);
  if (!node.domain.empty() || node.inputs.size() != 3) return false;
  const Node* test = rewriter.made_by(node.inputs[0], "IsNaN");
  const Node* softmax = rewriter.made_by(node.inputs[2], "Softmax");
  if (test == nullptr || softmax == nullptr || test->inputs[0] != node.inputs[2]) return false;
  // A zero of higher rank would raise the rank of the result.
  if (rewriter.scalar_beside(node.inputs[1], node.inputs[2]) != 0.0F || rewriter.is_output(node.inputs[2]))
    return false;
  if (rewriter.uses(node.inputs[2]) != 2 || !rewriter.read_once(node.inputs[0])) return false;
  const Value& x = rewriter.value(softmax->inputs[0]);
  if (!x.has_rank) return false;
  const Result<int> axis = read_softmax_axis(*softmax, static_cast<int>(x.dims.size()));
  // Before version 13 the groups have all dimensions from the axis on.
  const bool flat = softmax->since_version < 13;
  if (!axis.ok() || (flat && *axis + 1 != static_cast<int>(x.dims.size()))) return false;
  Node guarded = make_internal("GuardedSoftmax", softmax->name, softmax->inputs, node.outputs);
  guarded.set_int("axis", *axis);
  rewriter.replace(here, std::move(guarded));
  return true;
}

// Reshape(Transpose(Reshape(x), [0,2,1])), heads taken into the batch and back: Transpose(x, [0,1,3,2]), joined with
// the transpose that makes x.
bool transpose_of_heads(Rewriter& rewriter, NodeId here) {
  if (rewriter.node(here).op_type != "Reshape") return false;
  const Node& node = rewriter.node(here);
  if (!node.domain.empty() || node.outputs.size() != 1) return false;
  const Node* transpose = rewriter.made_by(node.inputs[0], "Transpose");
  if (transpose == nullptr || !rewriter.read_once(node.inputs[0])) return false;
  const Result<std::vector<int64_t>> perm = read_perm(*transpose, 3);
  if (!perm.ok() || *perm != std::vector<int64_t>{0, 2, 1}) return false;
  const Node* inner = rewriter.made_by(transpose->inputs[0], "Reshape");
  if (inner == nullptr || !rewriter.read_once(transpose->inputs[0])) return false;
  const Value &x = rewriter.value(inner->inputs[0]), &y = rewriter.value(node.outputs[0]);
  const Value& middle = rewriter.value(transpose->inputs[0]);
  if (!x.fully_known() || !y.fully_known() || !middle.fully_known()) return false;
  const Shape to = y.shape(), between = middle.shape();
  if (to.rank() != 4 || between.rank() != 3) return false;
  const Shape heads{to[0], to[1], to[3], to[2]};
  // One part of several may still have the dimension that they lie along.
  const bool is_part = x.shape() == Shape{1, heads[0], heads[1], heads[2], heads[3]};
  if ((!is_part && x.shape() != heads) || between != Shape{heads[0] * heads[1], heads[2], heads[3]}) return false;
  Node turned = make_node("Transpose", 13, node.name, {inner->inputs[0]}, node.outputs);
  if (is_part) {
    Value part = x;
    part.name = node.name + ":heads";
    part.set_shape(heads);
    const ValueId shape = rewriter.add_constant(part.name + ":shape", make_int64_constant(heads.dims()));
    turned.inputs = {rewriter.add_value(std::move(part))};
    rewriter.insert_before(
        here, make_node("Reshape", 13, node.name + ":heads", {inner->inputs[0], shape}, {turned.inputs[0]}));
  }
  std::vector<int64_t> order = {0, 1, 3, 2};
  if (const Node* before = rewriter.made_by(turned.inputs[0], "Transpose");
      before && rewriter.read_once(turned.inputs[0])) {
    if (const Result<std::vector<int64_t>> first = read_perm(*before, 4); first.ok()) {
      order = {(*first)[0], (*first)[1], (*first)[3], (*first)[2]};
      turned.inputs = before->inputs;
    }
  }
  turned.set_ints("perm", order);
  rewriter.replace(here, std::move(turned));
  return true;
}

// Masks that narrow_mask() made, by the inputs of their Where: layers share theirs.
using NarrowMasks = std::map<std::array<ValueId, 3>, ValueId>;

// Add(scores, Where(And(true, x), a, b)), as exporters write a mask that is the same for every query: the mask keeps
// the shape of x, which the sum repeats by itself.
bool narrow_mask(Rewriter& rewriter, NodeId here, NarrowMasks& masks) {
  if (rewriter.node(here).op_type != "Add") return false;
  const Node& node = rewriter.node(here);
  if (!node.domain.empty()) return false;
  const auto parts = split_operands(node, [&](ValueId mask, ValueId scores) {
    return rewriter.made_by(mask, "Where") != nullptr && rewriter.same_shape(scores, node.outputs[0]);
  });
  if (!parts) return false;
  const Node where = *rewriter.made_by(parts->first, "Where");
  const Node* both = rewriter.made_by(where.inputs[0], "And");
  if (both == nullptr) return false;
  const auto sides = split_operands(*both, [&](ValueId all, ValueId x) {
    const ConstantRef& constant = rewriter.constant(all);
    if (constant == nullptr || !rewriter.value(x).fully_known()) return false;
    const std::span<const uint8_t> truths = constant->as<uint8_t>();
    return !truths.empty() && std::find(truths.begin(), truths.end(), uint8_t{0}) == truths.end();
  });
  if (!sides) return false;
  for (ValueId number : {where.inputs[1], where.inputs[2]})
    if (!rewriter.scalar(number) ||
        rewriter.constant(number)->shape.rank() > rewriter.value(sides->second).shape().rank())
      return false;
  const auto [made, fresh] = masks.try_emplace({sides->second, where.inputs[1], where.inputs[2]}, kNoValue);
  ValueId& mask = made->second;
  if (fresh) {
    Value narrow = rewriter.value(parts->first);
    narrow.name = node.name + ":mask";
    narrow.set_shape(rewriter.value(sides->second).shape());
    mask = rewriter.add_value(std::move(narrow));
    rewriter.insert_before(here, make_node("Where", where.since_version, node.name + ":mask",
                                           {sides->second, where.inputs[1], where.inputs[2]}, {mask}));
  }
  Node sum = node;
  std::replace(sum.inputs.begin(), sum.inputs.end(), parts->first, mask);
  rewriter.replace(here, std::move(sum));
  return true;
}

// `values` `count` times, one after the other.
Result<ConstantRef> repeated(std::span<const float> values, const Shape& shape, int64_t count) {
  std::byte* data = nullptr;
  TENON_TRY_ASSIGN(ConstantRef result, make_constant(DataType::kFloat, shape, &data));
  auto* to = reinterpret_cast<float*>(data);
  for (int64_t i = 0; i < count; ++i) to = std::copy(values.begin(), values.end(), to);
  return result;
}

// Reshape(Reshape(x, [B,W,H,T,S]) + mask, [B*W,H,T,S]) with a constant mask [W,1,T,S]: the windows of B images, each
// with its mask. It becomes x + mask, repeated for the images.
Result<bool> mask_of_windows(Rewriter& rewriter, NodeId here) {
  if (rewriter.node(here).op_type != "Reshape") return false;
  const Node& node = rewriter.node(here);
  const Node* add = node.domain.empty() ? rewriter.made_by(node.inputs[0], "Add") : nullptr;
  if (!add || !rewriter.read_once(node.inputs[0])) return false;
  const auto parts = split_operands(*add, [&](ValueId mask, ValueId scores) {
    return rewriter.constant(mask) && rewriter.is_float(mask) && rewriter.made_by(scores, "Reshape") &&
           rewriter.read_once(scores);
  });
  if (!parts) return false;
  const ValueId x = rewriter.made_by(parts->second, "Reshape")->inputs[0];
  if (!rewriter.is_float(x) || !rewriter.value(x).fully_known() || !rewriter.value(parts->second).fully_known() ||
      !rewriter.same_shape(x, node.outputs[0]))
    return false;
  const ConstantRef mask = rewriter.constant(parts->first);
  const Shape windows = rewriter.value(parts->second).shape(), flat = rewriter.value(x).shape(), of = mask->shape;
  if (windows.rank() != 5 || flat.rank() != 4 || of.rank() > 5 || of.rank() < 4) return false;
  if (flat != Shape{windows[0] * windows[1], windows[2], windows[3], windows[4]}) return false;
  const int first = of.rank() - 4;
  if ((first == 1 && of[0] != 1) || of[first] != windows[1]) return false;
  for (int i = 1; i < 4; ++i)
    if (of[first + i] != 1 && of[first + i] != windows[1 + i]) return false;
  const Shape all{windows[0] * windows[1], of[first + 1], of[first + 2], of[first + 3]};
  if (!rewriter.may_make(windows[0] * mask->size_bytes)) return false;
  TENON_TRY_ASSIGN(ConstantRef of_all, repeated(mask->as<float>(), all, windows[0]));
  Node sum = make_node("Add", add->since_version, add->name,
                       {x, rewriter.add_constant(rewriter.value(parts->first).name + ":windows", std::move(of_all))},
                       node.outputs);
  rewriter.replace(here, std::move(sum));
  return true;
}

}  // namespace

bool hoist_factors(Rewriter& rewriter, NodeId here, bool of_weights) {
  if (rewriter.node(here).op_type != "MatMul") return false;
  const Node& node = rewriter.node(here);
  const bool internal = node.domain == "tenon";
  if (!internal && !node.domain.empty()) return false;
  MatMulForm form = read_matmul_form(node);
  if (!form.is_bare()) return false;
  // tenon.MatMul takes no vectors.
  for (ValueId id : node.inputs)
    if (!rewriter.value(id).has_rank || rewriter.value(id).dims.size() < 2) return false;
  if (!of_weights && (rewriter.constant(node.inputs[0]) || rewriter.constant(node.inputs[1]))) return false;
  std::vector<ValueId> inputs = node.inputs;
  for (ValueId& id : inputs) {
    const Node* mul = rewriter.made_by(id, "Mul");
    if (mul == nullptr || !rewriter.read_once(id)) continue;
    const auto parts =
        split_operands(*mul, [&](ValueId a, ValueId b) { return rewriter.scalar_beside(a, b).has_value(); });
    if (!parts) continue;
    form.alpha *= *rewriter.scalar(parts->first);
    id = parts->second;
  }
  if (inputs == node.inputs) return false;
  Node product = make_internal("MatMul", node.name, inputs, node.outputs);
  write_matmul_form(form, product);
  rewriter.replace(here, std::move(product));
  return true;
}

Status pass_attention_forms(Graph& graph, const PassOptions&) {
  const auto is_softmax = [](const Node& node) {
    return node.op_type == "Softmax" || node.op_type == "GuardedSoftmax";
  };
  if (std::none_of(graph.nodes.begin(), graph.nodes.end(), is_softmax)) return {};
  Rewriter rewriter(graph);
  NarrowMasks masks;
  for (NodeId i : rewriter.ids()) {
    if (rewriter.erased(i)) continue;
    TENON_TRY_ASSIGN(const bool of_windows, mask_of_windows(rewriter, i));
    (void)(of_windows || guarded_softmax(rewriter, i) || hoist_factors(rewriter, i, false) ||
           transpose_of_heads(rewriter, i) || narrow_mask(rewriter, i, masks));
  }
  rewriter.finish();
  return {};
}

}  // namespace tenon
