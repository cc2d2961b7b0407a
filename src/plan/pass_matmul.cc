// Turns MatMul and Gemm into tenon.MatMul, with bias and scale.
#include <algorithm>
#include <optional>
#include <string_view>
#include <utility>

#include "ops/matmul.h"
#include "ops/shape_inference_context.h"
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

// A normalisation by constants of the columns of a product with constant weights becomes part of them and of the bias,
// also behind a Reshape that keeps the columns. Whether node `here` was replaced.
Result<bool> norm_into_product(Rewriter& rewriter, NodeId here) {
  const Node& node = rewriter.node(here);
  if (node.op_type != "BatchNormalization" || !node.domain.empty()) return false;
  const ValueId x = node.inputs[0];
  const Node* reshape = rewriter.made_by(x, "Reshape");
  if (reshape == nullptr) reshape = rewriter.made_by(x, "Flatten");
  const ValueId product = reshape != nullptr ? reshape->inputs[0] : x;
  const Node* matmul = rewriter.made_by(product, "MatMul", "tenon");
  if (matmul == nullptr || !rewriter.read_once(x) || !rewriter.read_once(product)) return false;
  const MatMulForm form = read_matmul_form(*matmul);
  const ConstantRef weights = rewriter.constant(matmul->inputs[form.b]), bias = rewriter.constant(matmul->input(2));
  if (form.activated || form.residual != kNoInput || !weights || weights->type != DataType::kFloat ||
      weights->shape.rank() != 2 || (matmul->input(2) != kNoValue && (!bias || bias->type != DataType::kFloat)))
    return false;
  const int64_t rows = weights->shape[0], length = weights->shape[1], columns = form.trans_b ? rows : length;
  const auto has_columns = [&](ValueId id) {
    const Value& value = rewriter.value(id);
    return value.has_rank && !value.dims.empty() && value.dims.back().value == columns;
  };
  if (!has_columns(product) || !has_columns(x) || rewriter.value(x).dims.size() != 2) return false;
  const std::optional<ChannelLines> lines = batch_norm_lines(rewriter, node, static_cast<size_t>(columns));
  if (!lines || !rewriter.may_make(weights->size_bytes + lines->shift.size() * sizeof(float))) return false;
  const std::vector<float> factor(lines->factor.begin(), lines->factor.end());
  std::byte *to = nullptr, *sums = nullptr;
  TENON_TRY_ASSIGN(ConstantRef new_weights, make_constant(DataType::kFloat, weights->shape, &to));
  TENON_TRY_ASSIGN(ConstantRef new_bias, make_constant(DataType::kFloat, Shape{columns}, &sums));
  const float* from = weights->as<float>().data();
  auto* made = reinterpret_cast<float*>(to);
  for (int64_t row = 0; row < rows; ++row, from += length, made += length) {
    if (form.trans_b)
      for (int64_t j = 0; j < length; ++j) made[j] = from[j] * factor[row];
    else
      for (int64_t j = 0; j < length; ++j) made[j] = from[j] * factor[j];
  }
  for (int64_t j = 0; j < columns; ++j) {
    const double before = bias ? double{bias->as<float>()[j]} : 0;
    reinterpret_cast<float*>(sums)[j] = static_cast<float>(before * lines->factor[j] + lines->shift[j]);
  }
  Node fused = *matmul;
  const std::string name = rewriter.value(node.outputs[0]).name;
  fused.inputs.resize(3, kNoValue);
  fused.inputs[form.b] = rewriter.add_constant(name + ":weights", std::move(new_weights));
  fused.inputs[2] = rewriter.add_constant(name + ":bias", std::move(new_bias));
  fused.outputs = node.outputs;
  if (reshape == nullptr) {
    rewriter.replace(here, std::move(fused));
    return true;
  }
  Node last = *reshape;
  Value value = rewriter.value(product);
  value.name = name + ":product";
  fused.outputs = {last.inputs[0] = rewriter.add_value(std::move(value))};
  last.outputs = node.outputs;
  rewriter.insert_before(here, std::move(fused));
  rewriter.replace(here, std::move(last));
  return true;
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

// Reshape(MatMul(Reshape(x), weights)), whose Reshapes only join the leading dimensions and part them again: the
// product of x as it is. PyTorch's Conv1D and Keras's Dense of three dimensions are written so.
Status pass_unflatten_products(Graph& graph, const PassOptions&) {
  Rewriter rewriter(graph);
  for (NodeId i : rewriter.ids()) {
    if (rewriter.erased(i)) continue;
    const Node& node = rewriter.node(i);
    if (!node.domain.empty() || node.op_type != "Reshape") continue;
    const Node* const matmul = rewriter.made_by(node.inputs[0], "MatMul", "tenon");
    if (!matmul || !rewriter.read_once(node.inputs[0])) continue;
    const MatMulForm form = read_matmul_form(*matmul);
    const ConstantRef weights = rewriter.constant(matmul->inputs[form.b]);
    const Node* const flat = rewriter.made_by(matmul->inputs[form.a], "Reshape");
    if (!flat || !weights || weights->shape.rank() != 2 || form.residual != kNoInput) continue;
    const Value &x = rewriter.value(flat->inputs[0]), &y = rewriter.value(node.outputs[0]);
    if (!x.has_rank || !y.has_rank || x.dims.size() < 2 || x.dims.size() != y.dims.size()) continue;
    if (rewriter.value(matmul->inputs[form.a]).dims.size() != 2) continue;
    const bool same_rows = std::equal(x.dims.begin(), x.dims.end() - 1, y.dims.begin(),
                                      [](const Dim& a, const Dim& b) { return infer::same(a, b); });
    const int64_t depth = weights->shape[form.trans_b ? 1 : 0], columns = weights->shape[form.trans_b ? 0 : 1];
    if (!same_rows || x.dims.back().value != depth || y.dims.back().value != columns) continue;
    Node product = *matmul;
    product.inputs[form.a] = flat->inputs[0];
    product.outputs = node.outputs;
    rewriter.replace(i, std::move(product));
  }
  rewriter.finish();
  return {};
}

Status pass_matmul_bias(Graph& graph, const PassOptions&) {
  Rewriter rewriter(graph);
  for (NodeId i : rewriter.ids()) {
    if (rewriter.erased(i)) continue;
    TENON_TRY_ASSIGN(const bool normalised, norm_into_product(rewriter, i));
    if (normalised) continue;
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
