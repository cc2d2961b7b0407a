// tenon.QuantizedSoftmax: bytes to bytes, row by row through float32 numbers that stay in L1.
#include "ep/cpu/ops/kernel_support.h"
#include "ep/cpu/ops/quantize/rows.h"
#include "ep/cpu/ops/quantize/step.h"
#include "ep/cpu/ops/vector_kernel.h"
#include "ep/cpu/simd/norm.h"
#include "ep/cpu/simd/quantize.h"
#include "ops/quantized_bytes.h"

namespace tenon::cpu::nn {

namespace {

bool is_byte(const TensorSpec& spec) { return spec.type == DataType::kUint8 || spec.type == DataType::kInt8; }

ByteStep byte_step(const KernelContext& context, size_t scale, DataType type) {
  const bool is_signed = type == DataType::kInt8;
  const int32_t zero = integer_zero(context.input<uint8_t>(scale + 1), is_signed, 0) + (is_signed ? 128 : 0);
  return {.scale = *context.input<float>(scale),
          .zero = static_cast<float>(zero),
          .flip = static_cast<uint8_t>(is_signed ? 0x80 : 0)};
}

class QuantizedSoftmaxKernel final : public Kernel {
 public:
  QuantizedSoftmaxKernel(const KernelNode& node, int64_t columns)
      : x_(node.inputs[0].type), y_(node.outputs[0].type), slots_(scratch_slots(node)), columns_(columns) {
    rows_ = columns_ == 0 ? 0 : node.inputs[0].shape.element_count() / columns_;
  }

  Status run(KernelContext& context) const override {
    const ByteStep from = byte_step(context, 1, x_), to = byte_step(context, 3, y_);
    const auto* const x = context.input<uint8_t>(0);
    auto* const y = context.output<uint8_t>(0);
    ScratchSlots slots(context.scratch, slot_bytes(), slots_);
    context.pool->parallel_for(rows_, std::max<int64_t>(1, 4096 / std::max<int64_t>(1, columns_)),
                               [&](int64_t begin, int64_t end) {
                                 const ScratchSlots::Claim claim(slots);
                                 float* const row = claim.floats();
                                 for (int64_t i = begin; i < end; ++i) {
                                   quantize_table().dequantize(x + i * columns_, from, columns_, row);
                                   norm_table().softmax_rows(row, row, 1, columns_, false);
                                   quantize_table().quantize(row, to, columns_, y + i * columns_);
                                 }
                               });
    return {};
  }
  size_t scratch_bytes() const override { return slot_bytes() * static_cast<size_t>(slots_); }
  std::string_view name() const override { return "softmax int8"; }

 private:
  size_t slot_bytes() const { return aligned_bytes(static_cast<size_t>(columns_) * sizeof(float)); }

  const DataType x_, y_;
  const int slots_;
  const int64_t columns_;
  int64_t rows_ = 0;
};

}  // namespace

Status match_quantized_softmax(const KernelNode& node) {
  TENON_UNSUPPORTED_IF(!is_byte(input_spec(node, 0)) || !is_byte(output_spec(node, 0)), "Softmax of {} to {}.",
                       data_type_name(input_spec(node, 0).type), data_type_name(output_spec(node, 0).type));
  TENON_UNSUPPORTED_IF(input_spec(node, 0).layout != Layout::kPlain || output_spec(node, 0).layout != Layout::kPlain,
                       "A tensor is not plain.");
  return {};
}

Result<std::unique_ptr<Kernel>> create_quantized_softmax(const KernelNode& node) {
  TENON_INVALID_IF(node.inputs[0].shape.rank() == 0 || node.outputs[0].shape != node.inputs[0].shape,
                   "QuantizedSoftmax of {} makes {}.", node.inputs[0].shape.to_string(),
                   node.outputs[0].shape.to_string());
  const Shape& shape = node.inputs[0].shape;
  return std::unique_ptr<Kernel>(std::make_unique<QuantizedSoftmaxKernel>(node, shape[shape.rank() - 1]));
}

// Its inputs are in the same places.
Result<std::unique_ptr<Kernel>> create_qlinear_softmax(const KernelNode& node) {
  TENON_TRY_ASSIGN(const SoftmaxDesc desc, read_quantized_softmax(*node.node, node.inputs[0].shape));
  TENON_UNSUPPORTED_IF(desc.inner != 1, "The groups are no rows.");
  for (size_t input : {1, 3}) {
    const TensorSpec &scale = input_spec(node, input), &zero = input_spec(node, input + 1);
    const DataType type = input == 1 ? node.inputs[0].type : node.outputs[0].type;
    TENON_UNSUPPORTED_IF(scale.type != DataType::kFloat || scale.shape.element_count() != 1 ||
                             (zero.present() && (zero.type != type || zero.shape.element_count() != 1)),
                         "A tensor has no step of one float32 and one zero point of its type.");
  }
  TENON_INVALID_IF(node.outputs[0].shape != node.inputs[0].shape, "QLinearSoftmax of {} makes {}.",
                   node.inputs[0].shape.to_string(), node.outputs[0].shape.to_string());
  return std::unique_ptr<Kernel>(std::make_unique<QuantizedSoftmaxKernel>(node, desc.length));
}

}  // namespace tenon::cpu::nn
