// Moves activations and residual additions into the epilogue of the product before them.
#include <algorithm>
#include <string_view>
#include <utility>

#include "ops/unary.h"
#include "plan/pass_rewriter.h"
#include "plan/passes.h"

namespace tenon {
namespace {

// The tenon.Conv, tenon.ConvTranspose or tenon.MatMul that makes `id`.
const Node* product(const Rewriter& rewriter, ValueId id) {
  for (std::string_view op : {"Conv", "ConvTranspose", "MatMul"})
    if (const Node* node = rewriter.made_by(id, op, "tenon")) return node;
  return nullptr;
}

bool has_residual(const Node& node) { return node.input(3) != kNoValue; }

}  // namespace

Status pass_fuse_activations(Graph& graph, const PassOptions&) {
  Rewriter rewriter(graph);
  for (NodeId i : rewriter.ids()) {
    if (rewriter.erased(i)) continue;
    const Node& node = rewriter.node(i);
    if (node.domain != "tenon" || node.op_type != "Activation") continue;
    const Node* source = product(rewriter, node.inputs[0]);
    if (!source || !rewriter.read_once(node.inputs[0]) || has_activation(*source)) continue;
    if (!rewriter.is_float(node.outputs[0])) continue;
    Node fused = *source;
    fused.outputs = {node.outputs[0]};
    TENON_TRY_ASSIGN(const Epilogue epilogue, read_epilogue(node));
    write_activation(fused, epilogue);
    rewriter.replace(i, std::move(fused));
  }
  rewriter.finish();
  return {};
}

Status pass_fuse_residuals(Graph& graph, const PassOptions&) {
  Rewriter rewriter(graph);
  for (NodeId i : rewriter.ids()) {
    if (rewriter.erased(i)) continue;
    const Node& node = rewriter.node(i);
    if (!node.domain.empty() || node.op_type != "Add" || node.inputs.size() != 2) continue;
    // Of two products the later one takes the other's result.
    ValueId taken = kNoValue;
    for (ValueId id : node.inputs) {
      const Node* source = product(rewriter, id);
      if (!source || !rewriter.read_once(id) || has_residual(*source)) continue;
      const ValueId other = id == node.inputs[0] ? node.inputs[1] : node.inputs[0];
      if (!rewriter.is_float(other) || !rewriter.same_shape(id, other) || !rewriter.same_shape(id, node.outputs[0]))
        continue;
      if (taken == kNoValue || rewriter.producer_id(id) > rewriter.producer_id(taken)) taken = id;
    }
    if (taken == kNoValue) continue;
    Node fused = *product(rewriter, taken);
    fused.inputs.resize(4, kNoValue);
    fused.inputs[3] = taken == node.inputs[0] ? node.inputs[1] : node.inputs[0];
    fused.outputs = {node.outputs[0]};
    if (has_activation(fused)) fused.set_int("residual_after", 1);
    rewriter.replace(i, std::move(fused));
  }
  rewriter.finish();
  return {};
}

}  // namespace tenon
