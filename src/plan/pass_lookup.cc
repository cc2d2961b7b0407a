// Turns the product of a one-hot matrix and a constant into a table look-up. The table includes bias and activation.
#include <algorithm>
#include <optional>
#include <utility>

#include "ops/matmul.h"
#include "ops/reshape.h"
#include "ops/shape_inference.h"
#include "ops/unary.h"
#include "plan/pass_rewriter.h"
#include "plan/passes.h"

namespace tenon {
namespace {

constexpr size_t kMaxTableBytes = size_t{16} << 20;

template <typename T>
bool counts_from_zero(std::span<const T> values) {
  for (size_t i = 0; i < values.size(); ++i)
    if (static_cast<uint64_t>(values[i]) != i) return false;
  return true;
}

// 0, 1, ..., R-1 along the last dimension, the others 1.
bool is_iota(const Constant& constant, int64_t rows) {
  const int rank = constant.shape.rank();
  if (rank < 1 || constant.shape[rank - 1] != rows) return false;
  for (int i = 0; i + 1 < rank; ++i)
    if (constant.shape[i] != 1) return false;
  if (constant.type == DataType::kInt32) return counts_from_zero(constant.as<int32_t>());
  if (constant.type == DataType::kInt64) return counts_from_zero(constant.as<int64_t>());
  return false;
}

// The indices [...,1] of Cast(indices == [0..R-1]); kNoValue otherwise.
ValueId one_hot_indices(const Rewriter& rewriter, ValueId id, int64_t rows) {
  const Node* cast = rewriter.made_by(id, "Cast");
  if (!cast || !rewriter.read_once(id) || !rewriter.is_float(id)) return kNoValue;
  const Node* equal = rewriter.made_by(cast->inputs[0], "Equal");
  if (!equal || !rewriter.read_once(cast->inputs[0])) return kNoValue;
  auto parts = split_operands(*equal, [&](ValueId a, ValueId b) {
    const ConstantRef& constant = rewriter.constant(a);
    return constant != nullptr && is_iota(*constant, rows) && rewriter.constant(b) == nullptr;
  });
  if (!parts) return kNoValue;
  const Value& indices = rewriter.value(parts->second);
  const Value& hot = rewriter.value(id);
  if (!indices.fully_known() || !hot.fully_known() || indices.dims.size() != hot.dims.size()) return kNoValue;
  if (indices.dims.empty() || indices.dims.back().value != 1) return kNoValue;
  return parts->second;
}

// Rows of `weights` and a row of zeros, plus the bias.
Result<ConstantRef> make_table(const Constant& weights, const ConstantRef& bias) {
  const int64_t rows = weights.shape[0], columns = weights.shape[1];
  std::byte* data = nullptr;
  TENON_TRY_ASSIGN(ConstantRef table, make_constant(DataType::kFloat, Shape{rows + 1, columns}, &data));
  auto* dst = reinterpret_cast<float*>(data);
  std::span<const float> src = weights.as<float>();
  std::copy(src.begin(), src.end(), dst);
  if (!bias) return table;
  std::span<const float> shift = bias->as<float>();
  for (int64_t row = 0; row <= rows; ++row)
    for (int64_t column = 0; column < columns; ++column) *dst++ += shift[column];
  return table;
}

// The table after the product's activation.
Result<ConstantRef> activate(Rewriter& rewriter, const Node& matmul, ConstantRef table, const PassOptions& options) {
  Value result;
  result.name = rewriter.value(matmul.outputs[0]).name + ":activated";
  result.type = DataType::kFloat;
  result.set_shape(table->shape);
  const ValueId in = rewriter.add_constant(result.name + ":bare", std::move(table));
  const ValueId out = rewriter.add_value(std::move(result));
  Node activation = make_internal("Activation", matmul.name, {in}, {out});
  TENON_TRY_ASSIGN(const Epilogue epilogue, read_epilogue(matmul));
  write_activation(activation, epilogue);
  TENON_TRY_ASSIGN(std::vector<ConstantRef> values, options.evaluate(rewriter.graph(), activation));
  if (values.empty() || !values[0]) return internal_error("The activation of a table gives no result.");
  return values[0];
}

}  // namespace

Status pass_one_hot_lookup(Graph& graph, const PassOptions& options) {
  Rewriter rewriter(graph);
  for (NodeId i : rewriter.ids()) {
    if (rewriter.erased(i)) continue;
    const Node& matmul = rewriter.node(i);
    if (matmul.domain != "tenon" || matmul.op_type != "MatMul") continue;
    const MatMulForm form = read_matmul_form(matmul);
    if (form.residual != kNoInput || form.trans_b || form.alpha != 1.0f) continue;
    if (form.activated && !options.evaluate) continue;
    const ConstantRef weights = rewriter.constant(matmul.inputs[1]), bias = rewriter.constant(matmul.input(2));
    if (!weights || weights->type != DataType::kFloat || weights->shape.rank() != 2 || weights->shape[0] < 1) continue;
    if (weights->size_bytes > kMaxTableBytes || (matmul.input(2) != kNoValue && !bias)) continue;
    const ValueId indices = one_hot_indices(rewriter, matmul.inputs[0], weights->shape[0]);
    if (indices == kNoValue || !rewriter.may_make(2 * weights->size_bytes)) continue;
    TENON_TRY_ASSIGN(ConstantRef table, make_table(*weights, bias));
    if (form.activated) {
      Result<ConstantRef> activated = activate(rewriter, matmul, std::move(table), options);
      if (!activated.ok()) continue;
      table = std::move(*activated);
    }
    // [...,1] to [...]; folding joins it with the Reshape that made the 1.
    Value flat = rewriter.value(indices);
    flat.name += ":indices";
    flat.dims.pop_back();
    std::vector<int64_t> dims;
    dims.reserve(flat.dims.size());
    for (const Dim& dim : flat.dims) dims.push_back(dim.value);
    Node reshape;
    reshape.name = matmul.name;
    write_reshape(reshape, indices, rewriter.add_constant(flat.name + ":shape", make_int64_constant(dims)));
    const ValueId flat_id = rewriter.add_value(std::move(flat));
    reshape.outputs = {flat_id};
    const ValueId table_id = rewriter.add_constant(rewriter.value(matmul.outputs[0]).name + ":table", std::move(table));
    rewriter.insert_before(i, std::move(reshape));
    rewriter.replace(i, make_internal("LookupOrDefault", matmul.name, {table_id, flat_id}, matmul.outputs));
  }
  rewriter.finish();
  return {};
}

}  // namespace tenon
