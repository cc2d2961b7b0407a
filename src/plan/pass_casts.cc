// Takes the casts between float32 and the floats of 16 bits into the operators beside them.
#include <algorithm>
#include <iterator>
#include <string_view>
#include <utility>

#include "ops/float_types.h"
#include "ops/unary.h"
#include "plan/pass_rewriter.h"
#include "plan/passes.h"
#include "plan/widened.h"

namespace tenon {
namespace {

constexpr std::string_view kBinary[] = {"Add", "Div", "Max", "Min", "Mul", "PRelu", "Sub"};
constexpr std::string_view kRows[] = {"GlobalAveragePool", "GlobalMaxPool",   "Hardmax",   "LayerNormalization",
                                      "LogSoftmax",        "LpNormalization", "ReduceL1",  "ReduceL2",
                                      "ReduceMax",         "ReduceMean",      "ReduceMin", "ReduceSum",
                                      "ReduceSumSquare",   "Softmax"};
// Around these, values lie in blocks of channels, which a cast would stand in the way of either way.
constexpr std::string_view kBlocked[] = {"AveragePool", "Conv",        "ConvTranspose",
                                         "MaxPool",     "QLinearConv", "QuantizedConv"};

template <size_t kCount>
bool is_one_of(const Node& node, const std::string_view (&names)[kCount]) {
  return std::find(std::begin(names), std::end(names), node.op_type) != std::end(names);
}

// How many of the node's first inputs may be of 16 bits; its outputs may be then, too.
size_t narrow_inputs(const Node& node) {
  if (node.domain == "tenon") {
    if (node.op_type == "Activation" || node.op_type == "LayerNorm") return 1;
    return 0;
  }
  if (node.op_type == "RotaryEmbedding") return 1;
  if (!node.domain.empty()) return 0;
  if (is_one_of(node, kBinary)) return node.inputs.size() == 2 ? 2 : 0;
  if (is_one_of(node, kRows)) return 1;
  const UnaryRow* const row = find_unary_row(node.op_type);
  return row != nullptr && row->has_vector_loop() && row->function != Unary::kClip && node.inputs.size() == 1 ? 1 : 0;
}

// A Cast from 16 bits, as a node that gives the elements of `x`; or null.
const Node* widening(const Rewriter& rewriter, ValueId x) {
  const Node* const cast = rewriter.made_by(x, "Cast");
  return cast && rewriter.is_float(x) && is_16_bit_float(rewriter.value(cast->inputs[0]).type) ? cast : nullptr;
}

}  // namespace

Status pass_fuse_casts(Graph& graph, const PassOptions&) {
  const auto is_of_16_bits = [&](ValueId id) { return is_16_bit_float(graph.value(id).type); };
  bool any = false;
  for (const Node& node : graph.nodes) {
    if (is_one_of(node, kBlocked)) return {};
    any = any || (node.domain.empty() && node.op_type == "Cast" &&
                  (is_of_16_bits(node.inputs[0]) || is_of_16_bits(node.outputs[0])));
  }
  if (!any) return {};
  Rewriter rewriter(graph);
  PerValue<NodeId> narrowing(graph.values.size(), kNoNode);  // by its input, the Cast to 16 bits
  for (NodeId i : rewriter.ids()) {
    const Node& node = rewriter.node(i);
    if (node.domain.empty() && node.op_type == "Cast" && is_of_16_bits(node.outputs[0])) narrowing[node.inputs[0]] = i;
  }
  for (NodeId i : rewriter.ids()) {
    if (rewriter.erased(i)) continue;
    const size_t count = narrow_inputs(rewriter.node(i));
    if (count == 0) continue;
    Node node = rewriter.node(i);
    if (node.outputs[0] == kNoValue || !rewriter.value(node.outputs[0]).fully_known()) continue;
    bool changed = false;
    for (size_t input = 0; input < count; ++input) {
      const Node* const cast = widening(rewriter, node.inputs[input]);
      // An operand that is repeated would be widened each time.
      if (!cast || (count == 2 && !rewriter.same_shape(node.inputs[input], node.outputs[0]) &&
                    rewriter.is_float(node.outputs[0])))
        continue;
      node.inputs[input] = cast->inputs[0];
      changed = true;
    }
    NodeId after = kNoNode;
    if (const ValueId y = node.outputs[0]; rewriter.is_float(y) && rewriter.read_once(y) && narrowing[y].valid()) {
      after = narrowing[y];
      node.outputs[0] = rewriter.node(after).outputs[0];
      changed = true;
    }
    if (!changed) continue;
    const DataType stored = rewriter.value(node.outputs[0]).type;
    if (stored != rewriter.value(node.inputs[0]).type || node.has(kStoredType))
      node.set_int(kStoredType, static_cast<int64_t>(stored));
    rewriter.replace(i, std::move(node));
    if (after.valid()) rewriter.erase(after);
  }
  rewriter.finish();
  return {};
}

}  // namespace tenon
