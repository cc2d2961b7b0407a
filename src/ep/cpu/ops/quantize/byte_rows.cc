#include "ep/cpu/ops/quantize/byte_rows.h"

#include <array>
#include <cstring>
#include <optional>

#include "ep/cpu/ops/elementwise/broadcast.h"
#include "ep/cpu/ops/kernel_support.h"
#include "ep/cpu/ops/quantize/bytes.h"
#include "ep/cpu/ops/vector_kernel.h"
#include "ep/cpu/simd/byte_binary.h"
#include "ep/cpu/simd/interleave.h"

namespace tenon::cpu::nn {

namespace {

// Elements that one task takes: about 4 us.
constexpr int64_t kGrain = 16384;

// An operand as BroadcastWalk finds its elements in memory, beside outputs in blocks in one dimension; nothing for one
// byte a channel of those.
Result<std::optional<Shape>> stored_operand(const TensorSpec& x, const TensorSpec& y) {
  if (y.layout == Layout::kPlain) {
    TENON_TRY(expect_layout(x, Layout::kPlain, "An operand"));
    return std::optional(x.shape);
  }
  if (x.shape.element_count() == 1) return std::optional(Shape());
  if (x.shape == y.shape && x.layout == y.layout) return std::optional(Shape{stored_count(y)});
  const int missing = y.shape.rank() - x.shape.rank();
  TENON_UNSUPPORTED_IF(missing > 1, "An operand has shape {}.", x.shape.to_string());
  for (int d = missing; d < y.shape.rank(); ++d) {
    const int64_t size = x.shape[d - missing];
    TENON_UNSUPPORTED_IF(d == 1 ? size != y.shape[1] : size != 1 && (d > 1 || size != y.shape[0]),
                         "An operand has shape {}.", x.shape.to_string());
  }
  return std::optional<Shape>();
}

class ByteBinaryKernel final : public Kernel {
 public:
  ByteBinaryKernel(const KernelNode& node, const BroadcastWalk& walk, const QuantizedForm& form, int by_channel)
      : walk_(walk), product_(node.node->op_type == "QLinearMul"), exact_(form.exact), by_channel_(by_channel) {
    const DataType type = node.outputs[0].type;
    a_ = {form.x[0], type};
    b_ = {form.x[1], type};
    y_ = {form.y, type};
    for (size_t i = 0; i < 2; ++i) whole_[i] = node.inputs[form.x[i].data].shape == node.outputs[0].shape;
    if (by_channel_ < 0) return;
    const TensorSpec &x = node.inputs[form.x[by_channel_].data], &y = node.outputs[0];
    channels_ = y.shape[1];
    blocks_ = (channels_ + 7) / 8;
    planes_ = y.shape[0] * blocks_;
    // From one image to the next.
    const int64_t image = x.layout == Layout::kPlain ? channels_ : blocks_ * 8;
    image_ = x.shape.rank() < y.shape.rank() || x.shape[0] == 1 ? 0 : image;
  }

  Status run(KernelContext& context) const override {
    const ByteBinary steps{a_.step(context), b_.step(context), y_.step(context)};
    const auto *const a = context.input<uint8_t>(a_.inputs.data), *const b = context.input<uint8_t>(b_.inputs.data);
    auto* const y = context.output<uint8_t>(0);
    const ByteBinaryTable& table = byte_binary_table();
    const ByteBinaryRun apply = exact_     ? product_ ? table.multiply_exactly : table.add_exactly
                                : product_ ? table.multiply
                                           : table.add;
    if (by_channel_ >= 0) {
      run_by_channel(context, apply, a, b, steps, y);
      return {};
    }
    context.pool->parallel_for(walk_.count(), kGrain, [&](int64_t begin, int64_t end) {
      walk_.pieces(begin, end, [&](int64_t at, const auto& offset, int64_t n) {
        apply(a + offset[0], walk_.row_stride(0), b + offset[1], walk_.row_stride(1), steps, n, y + at);
      });
    });
    return {};
  }
  bool may_run_in_place(size_t input, size_t) const override {
    return (input == a_.inputs.data && whole_[0] && by_channel_ != 0) ||
           (input == b_.inputs.data && whole_[1] && by_channel_ != 1);
  }
  std::string_view name() const override { return "elementwise int8"; }

 private:
  // The bytes of a block's channels are written side by side, as often as a piece of the other operand has pixels.
  void run_by_channel(KernelContext& context, ByteBinaryRun apply, const uint8_t* a, const uint8_t* b,
                      const ByteBinary& steps, uint8_t* y) const {
    constexpr int64_t kPiece = 1024;
    const int64_t plane = walk_.count() / std::max<int64_t>(1, planes_);
    context.pool->parallel_for(planes_, std::max<int64_t>(1, kGrain / plane), [&](int64_t begin, int64_t end) {
      alignas(64) uint8_t beside[kPiece];
      for (int64_t i = begin; i < end; ++i) {
        const int64_t channel = i % blocks_ * 8;
        uint8_t pattern[16] = {};
        std::memcpy(pattern, (by_channel_ == 0 ? a : b) + i / blocks_ * image_ + channel,
                    static_cast<size_t>(std::min<int64_t>(8, channels_ - channel)));
        std::memcpy(pattern + 8, pattern, 8);
        interleave_table().fill(pattern, beside, std::min(kPiece, plane));
        for (int64_t at = i * plane; at < (i + 1) * plane; at += kPiece) {
          const int64_t n = std::min(kPiece, (i + 1) * plane - at);
          apply(by_channel_ == 0 ? beside : a + at, 1, by_channel_ == 1 ? beside : b + at, 1, steps, n, y + at);
        }
      }
    });
  }

  const BroadcastWalk walk_;
  const bool product_, exact_;
  ref::ByteTensor a_, b_, y_;
  bool whole_[2] = {};  // the operand has the shape of the output
  // The operand with one byte a channel beside blocks, or -1.
  const int by_channel_;
  int64_t channels_ = 0, blocks_ = 0, planes_ = 0, image_ = 0;
};
// The operands as stored_operand() gives them.
Result<std::array<std::optional<Shape>, 2>> operands_of(const KernelNode& node, const QuantizedForm& form) {
  std::array<std::optional<Shape>, 2> shapes;
  for (size_t i = 0; i < 2; ++i) {
    TENON_TRY_ASSIGN(shapes[i], stored_operand(input_spec(node, form.x[i].data), output_spec(node, 0)));
  }
  for (size_t i = 0; i < 2; ++i)
    TENON_UNSUPPORTED_IF(!shapes[i] && (!shapes[1 - i] || shapes[1 - i]->rank() == 0),
                         "No operand has the shape of the output.");
  return shapes;
}

}  // namespace

Status match_byte_binary(const KernelNode& node) {
  TENON_TRY(expect_known(node));
  TENON_TRY_ASSIGN(const QuantizedForm form, read_quantized_form(*node.node));
  const DataType type = output_spec(node, 0).type;
  for (const ByteInputs& x : {form.x[0], form.x[1], form.y}) {
    TENON_UNSUPPORTED_IF(!input_spec(node, x.scale).present(), "Input {} is absent.", x.scale);
    TENON_UNSUPPORTED_IF(x.data != kNoInput && input_spec(node, x.data).type != type, "Input {} is {}.", x.data,
                         data_type_name(input_spec(node, x.data).type));
    TENON_TRY(ref::byte_tensor(node, x, type).status());
  }
  return operands_of(node, form).status();
}

Result<std::unique_ptr<Kernel>> create_byte_binary(const KernelNode& node) {
  TENON_TRY_ASSIGN(const QuantizedForm form, read_quantized_form(*node.node));
  TENON_TRY_ASSIGN(const auto shapes, operands_of(node, form));
  const TensorSpec& y = output_spec(node, 0);
  const Shape stored = y.layout == Layout::kPlain ? y.shape : Shape{stored_count(y)};
  const int by_channel = !shapes[0] ? 0 : !shapes[1] ? 1 : -1;
  const Shape a = shapes[0].value_or(stored), b = shapes[1].value_or(stored);
  TENON_TRY_ASSIGN(const BroadcastWalk walk, BroadcastWalk::create(stored, {&a, &b}));
  return std::unique_ptr<Kernel>(std::make_unique<ByteBinaryKernel>(node, walk, form, by_channel));
}

}  // namespace tenon::cpu::nn
