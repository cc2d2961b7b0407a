// Turns MatMul and Gemm into tenon.MatMul, with bias and scale.
#include <optional>
#include <string_view>
#include <utility>

#include "ops/matmul.h"
#include "plan/pass_rewriter.h"
#include "plan/passes.h"

namespace tenon {
namespace {

// Elements of a constant that is one row: [N], [1,N], [1,1,N]; a scalar only where N is 1. The rank cannot exceed that
// of the product.
const Constant* row_constant(const Rewriter& rewriter, ValueId id, int64_t columns, size_t rank) {
  const ConstantRef& constant = rewriter.constant(id);
  if (!constant || constant->type != DataType::kFloat) return nullptr;
  if (constant->shape.rank() < 1 || constant->shape.dims().size() > rank) return nullptr;
  const int last = constant->shape.rank() - 1;
  for (int i = 0; i < last; ++i)
    if (constant->shape[i] != 1) return nullptr;
  return constant->shape[last] == columns ? constant.get() : nullptr;
}

// The value, or a flattened view of it where it has leading ones.
ValueId as_row(Rewriter& rewriter, ValueId id) {
  const ConstantRef constant = rewriter.constant(id);
  if (constant->shape.rank() == 1) return id;
  auto row = std::make_shared<Constant>(*constant);
  row->shape = Shape{constant->shape[constant->shape.rank() - 1]};
  return rewriter.add_constant(rewriter.value(id).name + ":row", std::move(row));
}

std::optional<int64_t> known_columns(const Rewriter& rewriter, const Node& matmul, const MatMulForm& form) {
  const Value& b = rewriter.value(matmul.inputs[form.b]);
  const Dim& dim = form.trans_b ? b.dims[b.dims.size() - 2] : b.dims.back();
  return dim.known() ? std::optional(dim.value) : std::nullopt;
}

bool matrix_like(const Value& value) {
  return value.type == DataType::kFloat && value.has_rank && value.dims.size() >= 2;
}

std::optional<Node> from_gemm(Rewriter& rewriter, const Node& node) {
  const MatMulForm form = read_matmul_form(node);
  if (form.trans_a) return std::nullopt;
  Node matmul = make_internal("MatMul", node.name, {node.inputs[0], node.inputs[1]}, node.outputs);
  write_matmul_form(form, matmul);
  if (form.addend == kNoInput) return matmul;
  if (form.beta != 1.0f) return std::nullopt;
  std::optional<int64_t> columns = known_columns(rewriter, node, form);
  const ValueId addend = node.inputs[form.addend];
  if (!columns || !row_constant(rewriter, addend, *columns, 2)) return std::nullopt;
  matmul.inputs.push_back(as_row(rewriter, addend));
  return matmul;
}

}  // namespace

Status pass_matmuls(Graph& graph, const PassOptions&) {
  Rewriter rewriter(graph);
  for (NodeId i : rewriter.ids()) {
    const Node& node = rewriter.node(i);
    if (!node.domain.empty() || (node.op_type != "MatMul" && node.op_type != "Gemm")) continue;
    if (!matrix_like(rewriter.value(node.inputs[0])) || !matrix_like(rewriter.value(node.inputs[1]))) continue;
    if (node.op_type == "MatMul") {
      rewriter.replace(i, make_internal("MatMul", node.name, {node.inputs[0], node.inputs[1]}, node.outputs));
    } else if (std::optional<Node> matmul = from_gemm(rewriter, node)) {
      rewriter.replace(i, std::move(*matmul));
    }
  }
  rewriter.finish();
  return {};
}

Status pass_matmul_bias(Graph& graph, const PassOptions&) {
  Rewriter rewriter(graph);
  for (NodeId i : rewriter.ids()) {
    if (rewriter.erased(i)) continue;
    const Node& node = rewriter.node(i);
    if (!node.domain.empty() || node.inputs.size() != 2) continue;
    const bool add = node.op_type == "Add", scale = node.op_type == "Mul" || node.op_type == "Div";
    if (!add && !scale) continue;
    auto parts = split_operands(node, [&](ValueId a, ValueId b) {
      return rewriter.constant(a) != nullptr && rewriter.made_by(b, "MatMul", "tenon") != nullptr;
    });
    if (!parts) continue;
    const auto [constant, product] = *parts;
    const Node* matmul = rewriter.made_by(product, "MatMul", "tenon");
    MatMulForm form = read_matmul_form(*matmul);
    if (!rewriter.read_once(product) || !form.is_bare()) continue;
    Node fused = *matmul;
    fused.outputs = {node.outputs[0]};
    if (add) {
      const Value& y = rewriter.value(product);
      std::optional<int64_t> columns = known_columns(rewriter, *matmul, form);
      if (!columns || !y.has_rank || !row_constant(rewriter, constant, *columns, y.dims.size())) continue;
      fused.inputs.resize(3, kNoValue);
      fused.inputs[2] = as_row(rewriter, constant);
    } else {
      std::optional<float> number = rewriter.scalar_beside(constant, product);
      if (!number || (node.op_type == "Div" && constant != node.inputs[1])) continue;
      form.alpha *= node.op_type == "Div" ? 1.0f / *number : *number;
      write_matmul_form(form, fused);
    }
    rewriter.replace(i, std::move(fused));
  }
  rewriter.finish();
  return {};
}

}  // namespace tenon
