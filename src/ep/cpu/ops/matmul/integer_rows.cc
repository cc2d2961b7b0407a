// MatMulInteger, QLinearMatMul and tenon.QuantizedMatMul on the product of bytes.
#include "ep/api/input_shapes.h"
#include "ep/cpu/ops/matmul/integer_product.h"
#include "ep/cpu/ops/vector_kernel.h"
#include "ops/attributes.h"
#include "ops/matmul.h"
#include "ops/unary.h"

namespace tenon::cpu::nn {

namespace {

bool is_byte(const TensorSpec& spec) { return spec.type == DataType::kUint8 || spec.type == DataType::kInt8; }

int64_t elements(const KernelNode& node, size_t input) {
  return input_spec(node, input).present() ? input_spec(node, input).shape.element_count() : 1;
}

}  // namespace

Status match_matmul_integer(const KernelNode& node) {
  for (std::span<const TensorSpec> specs : {node.inputs, node.outputs}) {
    for (const TensorSpec& spec : specs) {
      TENON_UNSUPPORTED_IF(spec.present() && (spec.layout != Layout::kPlain || spec.dynamic),
                           "A tensor is not plain, or its size is not known beforehand.");
    }
  }
  TENON_TRY_ASSIGN(const MatMulDesc desc, read_matmul(*node.node, input_shapes(node)));
  const DataType y = output_spec(node, 0).type;
  const bool scaled = desc.y_scale != kNoInput, fused = node.node->domain == "tenon";
  const DataType plain = fused ? DataType::kFloat : DataType::kInt32;
  TENON_UNSUPPORTED_IF(!is_byte(node.inputs[desc.a]) || !is_byte(node.inputs[desc.b]) ||
                           (scaled ? !is_byte(output_spec(node, 0)) : y != plain),
                       "The product of {} and {} is not one of bytes.", data_type_name(node.inputs[desc.a].type),
                       data_type_name(node.inputs[desc.b].type));
  for (size_t input : {desc.a_scale, desc.a_zero_point, desc.y_scale, desc.y_zero_point}) {
    TENON_UNSUPPORTED_IF(elements(node, input) != 1, "Input {} of {} has shape {}; the fast product takes one element.",
                         input, node.node->op_type, node.inputs[input].shape.to_string());
  }
  for (size_t input : {desc.b_scale, desc.b_zero_point}) {
    const int64_t count = elements(node, input);
    TENON_UNSUPPORTED_IF(count != 1 && (count != desc.n || input_spec(node, input).shape.rank() != 1),
                         "Input {} of {} has shape {} for {} columns.", input, node.node->op_type,
                         node.inputs[input].shape.to_string(), desc.n);
  }
  for (size_t input : {desc.a_scale, desc.b_scale, desc.y_scale}) {
    TENON_UNSUPPORTED_IF(input_spec(node, input).present() && node.inputs[input].type != DataType::kFloat,
                         "A scale is {}.", data_type_name(node.inputs[input].type));
  }
  return {};
}

Result<std::unique_ptr<Kernel>> create_matmul_integer(const KernelNode& node) {
  TENON_TRY_ASSIGN(const MatMulDesc desc, read_matmul(*node.node, input_shapes(node)));
  TENON_INVALID_IF(output_spec(node, 0).shape != desc.y, "The output has shape {} instead of {}.",
                   output_spec(node, 0).shape.to_string(), desc.y.to_string());
  IntegerProduct product{.m = desc.m,
                         .n = desc.n,
                         .k = desc.k,
                         .a_index = {},
                         .b_index = {},
                         .a = desc.a,
                         .b = desc.b,
                         .a_scale = desc.a_scale,
                         .a_zero = desc.a_zero_point,
                         .b_scale = desc.b_scale,
                         .b_zero = desc.b_zero_point,
                         .y_scale = desc.y_scale,
                         .y_zero = desc.y_zero_point,
                         .epilogue = {}};
  if (node.node->domain == "tenon") {
    const auto given = [&](size_t input) { return input_spec(node, input).present() ? input : kNoInput; };
    product.trans_b = desc.trans_b;
    product.bias = desc.addend;
    product.residual = desc.residual;
    product.middle_scale = given(10);
    product.middle_zero = given(11);
    product.middle_bias = given(12);
    product.table = given(13);
    product.factor = Attributes(*node.node).number("factor");
    TENON_TRY_ASSIGN(product.epilogue, read_epilogue(*node.node));
  }
  fill_integer_batches(desc, product);
  return make_integer_product(node, std::move(product));
}

void fill_integer_batches(const MatMulDesc& desc, IntegerProduct& product) {
  product.b_matrices = desc.b_batch.element_count();
  const int64_t batches = desc.batch.element_count();
  if (product.b_matrices == 1 && desc.a_batch.element_count() == batches) {
    // A batch of A that meets one B is one tall matrix.
    product.m *= batches;
    product.a_index = product.b_index = {0};
    return;
  }
  for (int64_t i = 0; i < batches; ++i) {
    product.a_index.push_back(operand_matrix(desc.batch, desc.a_batch, i));
    product.b_index.push_back(operand_matrix(desc.batch, desc.b_batch, i));
  }
}

}  // namespace tenon::cpu::nn
