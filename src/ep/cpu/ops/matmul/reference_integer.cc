// MatMulInteger, QLinearMatMul and tenon.QuantizedMatMul.
#include "base/checked.h"
#include "ep/api/input_shapes.h"
#include "ep/cpu/ops/quantize/reference_fused.h"
#include "ops/attributes.h"
#include "ops/matmul.h"
#include "ops/quantize.h"

namespace tenon::cpu::ref {

namespace {

// A scale or a zero point: an input of the node, and which element of it a line has.
struct LineReader {
  size_t input = kNoInput;
  ReadElement read = nullptr;
  LineParameters lines;

  double at(const KernelContext& context, int64_t matrix, int64_t line) const {
    return read ? read(context.inputs[input], lines.at(matrix, line)) : 0;
  }
};

Result<LineReader> line_reader(const RefNode& node, size_t input, const Shape& operand, bool rows) {
  LineReader reader{.input = input};
  const TensorSpec& spec = input_spec(node, input);
  if (!spec.present()) return reader;
  TENON_TRY_ASSIGN(reader.lines, read_line_parameters(spec.shape, operand, rows));
  reader.read = element_reader(spec.type);
  TENON_UNSUPPORTED_IF(reader.read == nullptr, "{} has a scale or zero point of {}.", node.node->op_type,
                       data_type_name(spec.type));
  return reader;
}

struct Plan {
  MatMulDesc desc;
  ReadElement read_a = nullptr, read_b = nullptr;
  LineReader a_scale, a_zero, b_scale, b_zero, y_scale, y_zero;
  WriteQuantized write = nullptr;  // null: the sums are the result
  bool fused = false;              // tenon.QuantizedMatMul
  FusedOutput output;
};

// Rows of the product with each zero point subtracted: the integers of A and B, then sums that wrap as int32 does.
void multiply(const Plan& plan, const KernelContext& context, int64_t product) {
  const MatMulDesc& desc = plan.desc;
  const int64_t m = desc.m, n = desc.n, k = desc.k;
  const int64_t a_matrix = operand_matrix(desc.batch, desc.a_batch, product);
  const int64_t b_matrix = operand_matrix(desc.batch, desc.b_batch, product);
  auto* const a = reinterpret_cast<int32_t*>(context.scratch);
  auto* const b = a + k;
  auto* const sums = reinterpret_cast<uint32_t*>(b + k * n);
  for (int64_t p = 0; p < k; ++p) {
    for (int64_t j = 0; j < n; ++j) {
      const int64_t element = b_matrix * k * n + p * desc.b_row() + j * desc.b_column();
      const double value = plan.read_b(context.inputs[desc.b], element);
      b[p * n + j] = static_cast<int32_t>(value - plan.b_zero.at(context, b_matrix, j));
    }
  }
  for (int64_t i = 0; i < m; ++i) {
    for (int64_t p = 0; p < k; ++p) {
      const double value = plan.read_a(context.inputs[desc.a], (a_matrix * m + i) * k + p);
      a[p] = static_cast<int32_t>(value - plan.a_zero.at(context, a_matrix, i));
    }
    for (int64_t j = 0; j < n; ++j) sums[j] = 0;
    for (int64_t p = 0; p < k; ++p)
      for (int64_t j = 0; j < n; ++j) sums[j] += static_cast<uint32_t>(a[p] * b[p * n + j]);
    const int64_t first = (product * m + i) * n;
    for (int64_t j = 0; j < n; ++j) {
      const auto sum = static_cast<int32_t>(sums[j]);
      if (plan.fused) {
        const float scale = static_cast<float>(plan.a_scale.at(context, a_matrix, i)) *
                            static_cast<float>(plan.b_scale.at(context, b_matrix, j));
        plan.output.store(context, static_cast<double>(sum) * static_cast<double>(scale), j, first + j);
        continue;
      }
      if (plan.write == nullptr) {
        context.output<int32_t>(0)[first + j] = sum;
        continue;
      }
      const auto scale = static_cast<float>(plan.a_scale.at(context, a_matrix, i)) *
                         static_cast<float>(plan.b_scale.at(context, b_matrix, j)) /
                         static_cast<float>(plan.y_scale.at(context, product, i));
      plan.write(static_cast<float>(sum) * scale, plan.y_zero.at(context, product, i), context.outputs[0], first + j);
    }
  }
}

// The inputs behind those of QLinearMatMul.
Result<FusedOutput> read_output(const RefNode& node, const MatMulDesc& desc) {
  FusedOutput output{.bias = desc.addend,
                     .residual = desc.residual,
                     .middle_scale = given_input(node, 10),
                     .middle_zero = given_input(node, 11),
                     .middle_bias = given_input(node, 12),
                     .y_scale = desc.y_scale,
                     .y_zero = desc.y_zero_point,
                     .table = given_input(node, 13),
                     .factor = Attributes(*node.node).number("factor"),
                     .epilogue = {},
                     .y_type = output_spec(node, 0).type};
  if (output.middle_zero != kNoInput) output.middle_type = node.inputs[11].type;
  TENON_TRY_ASSIGN(output.epilogue, read_epilogue(*node.node));
  return output;
}

Result<RefImpl> make(RefNode& node) {
  Plan plan;
  TENON_TRY_ASSIGN(plan.desc, read_matmul(*node.node, input_shapes(node)));
  const MatMulDesc& desc = plan.desc;
  TENON_TRY(require_output(node, 0, desc.y));
  const TensorSpec &a = node.inputs[desc.a], &b = node.inputs[desc.b];
  plan.read_a = element_reader(a.type);
  plan.read_b = element_reader(b.type);
  const bool scaled = desc.y_scale != kNoInput;
  const DataType y = output_spec(node, 0).type;
  plan.fused = node.node->domain == "tenon";
  if (plan.fused) {
    TENON_TRY_ASSIGN(plan.output, read_output(node, desc));
  }
  if (scaled) plan.write = quantized_writer(y);
  const auto byte = [](DataType type) { return type == DataType::kUint8 || type == DataType::kInt8; };
  TENON_UNSUPPORTED_IF(
      !byte(a.type) || !byte(b.type) || (scaled && !byte(y)) || (plan.fused && !scaled && y != DataType::kFloat),
      "{} is not computed on {} and {}.", node.node->op_type, data_type_name(a.type), data_type_name(b.type));
  TENON_TRY_ASSIGN(plan.a_scale, line_reader(node, desc.a_scale, a.shape, true));
  TENON_TRY_ASSIGN(plan.a_zero, line_reader(node, desc.a_zero_point, a.shape, true));
  TENON_TRY_ASSIGN(plan.b_scale, line_reader(node, desc.b_scale, b.shape, false));
  TENON_TRY_ASSIGN(plan.b_zero, line_reader(node, desc.b_zero_point, b.shape, false));
  if (!plan.fused) {
    TENON_TRY_ASSIGN(plan.y_scale, line_reader(node, desc.y_scale, desc.y, true));
    TENON_TRY_ASSIGN(plan.y_zero, line_reader(node, desc.y_zero_point, desc.y, true));
  }
  // B, a row of A, a row of sums.
  std::optional<int64_t> bytes = checked_mul(desc.k, desc.n);
  for (int64_t more : {desc.k, desc.n}) bytes = bytes ? checked_add(*bytes, more) : bytes;
  bytes = bytes ? checked_mul(*bytes, int64_t{sizeof(int32_t)}) : bytes;
  TENON_UNSUPPORTED_IF(!bytes, "A product of depth {} and {} columns overflows.", desc.k, desc.n);
  RefImpl impl;
  impl.scratch_bytes = static_cast<size_t>(*bytes);
  impl.run = [plan, products = desc.batch.element_count()](KernelContext& context) -> Status {
    for (int64_t i = 0; i < products; ++i) multiply(plan, context, i);
    return {};
  };
  return impl;
}

constexpr TypeSet kBytes = type_set(TypeList<int8_t, uint8_t>());
constexpr KernelEntry kRows[] = {
    ref_row<kBytes, &make>("MatMulInteger", 10),
    ref_row<kBytes, &make>("QLinearMatMul", 10),
    ref_row<kBytes, &make>("QuantizedMatMul", 1, kAnyVersion, "tenon"),
};

}  // namespace

std::span<const KernelEntry> ref_matmul_integer_rows() { return kRows; }

}  // namespace tenon::cpu::ref
