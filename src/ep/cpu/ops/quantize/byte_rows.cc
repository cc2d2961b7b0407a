#include "ep/cpu/ops/quantize/byte_rows.h"

#include "ep/cpu/ops/elementwise/broadcast.h"
#include "ep/cpu/ops/quantize/bytes.h"
#include "ep/cpu/ops/vector_kernel.h"
#include "ep/cpu/simd/byte_binary.h"

namespace tenon::cpu::nn {

namespace {

// Elements that one task takes: about 4 us.
constexpr int64_t kGrain = 16384;

class ByteBinaryKernel final : public Kernel {
 public:
  ByteBinaryKernel(const KernelNode& node, const BroadcastWalk& walk, const QuantizedForm& form)
      : walk_(walk), product_(node.node->op_type == "QLinearMul"), exact_(form.exact) {
    const DataType type = node.outputs[0].type;
    a_ = {form.x[0], type};
    b_ = {form.x[1], type};
    y_ = {form.y, type};
    for (size_t i = 0; i < 2; ++i) whole_[i] = node.inputs[form.x[i].data].shape == node.outputs[0].shape;
  }

  Status run(KernelContext& context) const override {
    const ByteBinary steps{a_.step(context), b_.step(context), y_.step(context)};
    const auto *const a = context.input<uint8_t>(a_.inputs.data), *const b = context.input<uint8_t>(b_.inputs.data);
    auto* const y = context.output<uint8_t>(0);
    const ByteBinaryTable& table = byte_binary_table();
    const ByteBinaryRun apply = exact_     ? product_ ? table.multiply_exactly : table.add_exactly
                                : product_ ? table.multiply
                                           : table.add;
    context.pool->parallel_for(walk_.count(), kGrain, [&](int64_t begin, int64_t end) {
      walk_.pieces(begin, end, [&](int64_t at, const auto& offset, int64_t n) {
        apply(a + offset[0], walk_.row_stride(0), b + offset[1], walk_.row_stride(1), steps, n, y + at);
      });
    });
    return {};
  }
  bool may_run_in_place(size_t input, size_t) const override {
    return (input == a_.inputs.data && whole_[0]) || (input == b_.inputs.data && whole_[1]);
  }
  std::string_view name() const override { return "elementwise int8"; }

 private:
  const BroadcastWalk walk_;
  const bool product_, exact_;
  ref::ByteTensor a_, b_, y_;
  bool whole_[2] = {};  // the operand has the shape of the output
};

}  // namespace

Status match_byte_binary(const KernelNode& node) {
  for (std::span<const TensorSpec> specs : {node.inputs, node.outputs}) {
    for (const TensorSpec& spec : specs) {
      TENON_UNSUPPORTED_IF(spec.present() && (spec.layout != Layout::kPlain || spec.dynamic),
                           "A tensor is not plain, or its size is not known beforehand.");
    }
  }
  TENON_TRY_ASSIGN(const QuantizedForm form, read_quantized_form(*node.node));
  const DataType type = output_spec(node, 0).type;
  for (const ByteInputs& x : {form.x[0], form.x[1], form.y}) {
    TENON_UNSUPPORTED_IF(!input_spec(node, x.scale).present(), "Input {} is absent.", x.scale);
    TENON_UNSUPPORTED_IF(x.data != kNoInput && input_spec(node, x.data).type != type, "Input {} is {}.", x.data,
                         data_type_name(input_spec(node, x.data).type));
    TENON_TRY(ref::byte_tensor(node, x, type).status());
  }
  return {};
}

Result<std::unique_ptr<Kernel>> create_byte_binary(const KernelNode& node) {
  TENON_TRY_ASSIGN(const QuantizedForm form, read_quantized_form(*node.node));
  TENON_TRY_ASSIGN(const BroadcastWalk walk,
                   BroadcastWalk::create(output_spec(node, 0).shape,
                                         {&node.inputs[form.x[0].data].shape, &node.inputs[form.x[1].data].shape}));
  return std::unique_ptr<Kernel>(std::make_unique<ByteBinaryKernel>(node, walk, form));
}

}  // namespace tenon::cpu::nn
