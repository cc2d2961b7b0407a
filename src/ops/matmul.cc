#include "ops/matmul.h"

#include <utility>

#include "base/status.h"
#include "ops/attributes.h"

namespace tenon {

namespace {

using infer::Dims;
using infer::InputDims;

bool is_gemm(const Node& node) { return node.op_type == "Gemm" || node.op_type == "QGemm"; }

struct MatMulDims {
  Dims a_batch, b_batch, batch, y;
  Dim m = infer::number(1), n = infer::number(1), k;
};

Dim dim_at(const Dims& dims, size_t from_end) { return dims[dims.size() - from_end]; }

Status check_addend(const Node& node, const Dims& addend, const MatMulDims& product) {
  if (is_gemm(node)) {
    TENON_INVALID_IF(!infer::may_broadcast_to(addend, product.y), "C {} does not broadcast to the product {}.",
                     infer::text(addend), infer::text(product.y));
    return {};
  }
  TENON_INVALID_IF(addend.size() != 1 || infer::certainly_differ(addend[0], product.n),
                   "The bias has shape {}; it needs {}, an element for each column.", infer::text(addend),
                   infer::text({product.n}));
  return {};
}

// A and B have known ranks.
Result<MatMulDims> matmul_dims(const Node& node, const MatMulForm& form, const InputDims& inputs) {
  const Dims &a = *inputs.find(form.a), &b = *inputs.find(form.b);
  TENON_INVALID_IF(a.empty() || b.empty(), "A {} and B {} do not multiply: a scalar is no matrix.", infer::text(a),
                   infer::text(b));
  TENON_INVALID_IF(is_gemm(node) && (a.size() != 2 || b.size() != 2), "{} multiplies matrices, not {} and {}.",
                   node.op_type, infer::text(a), infer::text(b));
  TENON_INVALID_IF(node.domain == "tenon" && (a.size() < 2 || b.size() < 2), "A {} and B {} need rank 2 or more.",
                   infer::text(a), infer::text(b));
  MatMulDims product;
  if (a.size() >= 2) product.m = dim_at(a, form.trans_a ? 1 : 2);
  if (b.size() >= 2) product.n = dim_at(b, form.trans_b ? 2 : 1);
  product.k = dim_at(a, form.trans_a ? 2 : 1);
  const Dim depth = b.size() >= 2 ? dim_at(b, form.trans_b ? 1 : 2) : b[0];
  TENON_INVALID_IF(infer::certainly_differ(product.k, depth), "A {}{} and B {}{} do not multiply: {} against {}.",
                   infer::text(a), form.trans_a ? " (transposed)" : "", infer::text(b),
                   form.trans_b ? " (transposed)" : "", product.k.value, depth.value);
  if (a.size() >= 2) product.a_batch.assign(a.begin(), a.end() - 2);
  if (b.size() >= 2) product.b_batch.assign(b.begin(), b.end() - 2);
  TENON_TRY_ASSIGN(product.batch, infer::broadcast(product.a_batch, product.b_batch));
  product.y = product.batch;
  if (a.size() >= 2) product.y.push_back(product.m);
  if (b.size() >= 2) product.y.push_back(product.n);
  // Gemm checks C even where a beta of 0 drops it, as ONNX Runtime does.
  if (const Dims* addend = inputs.find(node.op_type == "Gemm" ? 2 : form.addend))
    TENON_TRY(check_addend(node, *addend, product));
  if (const Dims* residual = inputs.find(form.residual)) TENON_TRY(infer::check_residual(*residual, product.y));
  return product;
}

// The inputs that QLinearMatMul and tenon.QuantizedMatMul share.
template <typename Given>
void read_scales(MatMulForm& form, const Given& given) {
  form.b = 3;
  form.a_scale = given(1);
  form.a_zero_point = given(2);
  form.b_scale = given(4);
  form.b_zero_point = given(5);
  form.y_scale = given(6);
  form.y_zero_point = given(7);
}

// `is_given(input)`: the node has that input.
template <typename IsGiven>
MatMulForm read_form(const Node& node, const IsGiven& is_given) {
  MatMulForm form;
  const Attributes attributes(node);
  const auto given = [&](size_t input) { return is_given(input) ? input : kNoInput; };
  if (node.op_type == "Gemm") {
    form.trans_a = attributes.flag("transA");
    form.trans_b = attributes.flag("transB");
    form.alpha = attributes.number("alpha");
    form.beta = attributes.number("beta");
    if (form.beta != 0) form.addend = given(2);
  } else if (node.op_type == "QuantizedMatMul") {
    read_scales(form, given);
    form.trans_b = attributes.flag("trans_b");
    form.addend = given(8);
    form.residual = given(9);
    form.activated = attributes.has("activation");
  } else if (node.domain == "tenon") {
    form.trans_b = attributes.flag("trans_b");
    form.alpha = attributes.number("alpha");
    form.addend = given(2);
    form.residual = given(3);
    form.activated = attributes.has("activation");
  } else if (node.op_type == "MatMulInteger") {
    form.a_zero_point = given(2);
    form.b_zero_point = given(3);
  } else if (node.op_type == "QLinearMatMul") {
    read_scales(form, given);
  } else if (node.op_type == "DynamicQuantizeMatMul") {
    form.b_scale = given(2);
    form.b_zero_point = given(3);
    form.addend = given(4);
  } else if (node.op_type == "MatMulIntegerToFloat") {
    form.a_scale = given(2);
    form.b_scale = given(3);
    form.a_zero_point = given(4);
    form.b_zero_point = given(5);
    form.addend = given(6);
  } else if (node.op_type == "QGemm") {
    form.b = 3;
    form.a_scale = given(1);
    form.a_zero_point = given(2);
    form.b_scale = given(4);
    form.b_zero_point = given(5);
    form.addend = given(6);
    form.y_scale = given(7);
    form.y_zero_point = given(8);
    form.trans_a = attributes.flag("transA");
    form.trans_b = attributes.flag("transB");
    form.alpha = attributes.number("alpha");
  }
  return form;
}

}  // namespace

MatMulForm read_matmul_form(const Node& node) {
  return read_form(node, [&](size_t input) { return node.input(input) != kNoValue; });
}

void write_matmul_form(const MatMulForm& form, Node& node) {
  const MatMulForm stated = read_matmul_form(node);
  if (form.trans_b != stated.trans_b) node.set_int("trans_b", form.trans_b ? 1 : 0);
  if (form.alpha != stated.alpha) node.set_float("alpha", form.alpha);
}

Result<MatMulDesc> read_matmul(const Node& node, const InputShapes& shapes) {
  MatMulDesc desc{read_form(node, [&](size_t input) { return shapes.find(input) != nullptr; })};
  for (size_t input : {desc.a, desc.b})
    TENON_INVALID_IF(shapes.find(input) == nullptr, "{} lacks input {}.", node.op_type, input);
  TENON_TRY_ASSIGN(const MatMulDims dims, matmul_dims(node, desc, infer::input_dims(shapes)));
  desc.m = dims.m.value;
  desc.n = dims.n.value;
  desc.k = dims.k.value;
  desc.a_batch = infer::to_shape(dims.a_batch);
  desc.b_batch = infer::to_shape(dims.b_batch);
  desc.batch = infer::to_shape(dims.batch);
  desc.y = infer::to_shape(dims.y);
  if (const Shape* addend = shapes.find(desc.addend)) {
    const int rank = addend->rank();
    const int64_t columns = rank >= 1 ? (*addend)[rank - 1] : 1;
    if (columns != 1) desc.addend_column = 1;
    if (rank == 2 && (*addend)[0] != 1) desc.addend_row = columns;
  }
  return desc;
}

int64_t operand_matrix(const Shape& batch, const Shape& operand, int64_t index) {
  int64_t matrix = 0, step = 1;
  for (int i = batch.rank() - 1, o = operand.rank() - 1; o >= 0; --i, --o) {
    if (operand[o] != 1) matrix += index % batch[i] * step;
    index /= batch[i];
    step *= operand[o];
  }
  return matrix;
}

namespace infer {
namespace {

// The type of Y.
DataType result_type(const Context& c, const MatMulForm& form) {
  const std::string_view name = c.node().op_type;
  if (name == "MatMulInteger") return DataType::kInt32;
  if (name == "QLinearMatMul") return c.type(form.y_zero_point);
  if (name == "QuantizedMatMul") {
    const DataType otherwise = form.y_scale == kNoInput ? DataType::kFloat : DataType::kUint8;
    return form.y_zero_point == kNoInput ? otherwise : c.type(form.y_zero_point);
  }
  if (name == "DynamicQuantizeMatMul") return DataType::kFloat;
  if (name == "MatMulIntegerToFloat") return c.type(form.b_scale);
  if (name == "QGemm") return form.y_zero_point != kNoInput ? c.type(form.y_zero_point) : DataType::kFloat;
  if (name != "MatMulInteger16") return c.type(form.a);
  return c.type(0) == DataType::kUint16 && c.type(1) == DataType::kUint16 ? DataType::kUint32 : DataType::kInt32;
}

Status infer_matmul(Context& c) {
  const MatMulForm form = read_matmul_form(c.node());
  c.set_type(0, result_type(c, form));
  InputDims dims = input_dims(c);
  if (is_gemm(c.node())) {
    TENON_TRY(c.require_rank(form.a, 2, "A"));
    TENON_TRY(c.require_rank(form.b, 2, "B"));
    InputDims matrices;
    for (size_t i = 0; i < dims.size(); ++i) {
      const Dims* known = dims.find(i);
      const bool is_matrix = i == form.a || i == form.b;
      matrices.push_back(known != nullptr ? std::optional(*known) : is_matrix ? std::optional(Dims(2)) : std::nullopt);
    }
    dims = std::move(matrices);
  }
  if (dims.find(form.a) == nullptr || dims.find(form.b) == nullptr) return {};
  TENON_TRY_ASSIGN(MatMulDims product, matmul_dims(c.node(), form, dims));
  return c.set_dims(0, std::move(product.y));
}

constexpr Row kRows[] = {
    {"Gemm", &infer_matmul},
    {"MatMul", &infer_matmul},
    {"MatMulInteger", &infer_matmul},
    {"QLinearMatMul", &infer_matmul},
};
constexpr Row kInternalRows[] = {{"MatMul", &infer_matmul}, {"QuantizedMatMul", &infer_matmul}};

constexpr Row kContribRows[] = {
    {"DynamicQuantizeMatMul", &infer_matmul},
    {"MatMulInteger16", &infer_matmul},
    {"MatMulIntegerToFloat", &infer_matmul},
    {"QGemm", &infer_matmul},
};

}  // namespace

std::span<const Row> matmul_rows() { return kRows; }
std::span<const Row> internal_matmul_rows() { return kInternalRows; }
std::span<const Row> contrib_product_rows() { return kContribRows; }

}  // namespace infer
}  // namespace tenon
