#include "ep/cpu/ops/quantize/byte_rows.h"

#include <cstring>

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

// An operand beside outputs in blocks.
enum class Lies : uint8_t { kAlike, kOnce, kByChannel };

Result<Lies> read_lies(const TensorSpec& x, const TensorSpec& y) {
  if (x.shape == y.shape && x.layout == y.layout) return Lies::kAlike;
  if (x.shape.element_count() == 1) return Lies::kOnce;
  const int missing = y.shape.rank() - x.shape.rank();
  bool by_channel = missing <= 1;
  for (int d = missing; by_channel && d < y.shape.rank(); ++d) {
    const int64_t size = x.shape[d - missing];
    by_channel = d == 1 ? size == y.shape[1] : size == 1 || (d == 0 && size == y.shape[0]);
  }
  TENON_UNSUPPORTED_IF(!by_channel, "An operand of blocks of {} has shape {}.", y.shape.to_string(),
                       x.shape.to_string());
  return Lies::kByChannel;
}

// Shapes in memory, for BroadcastWalk.
struct Operands {
  Shape a, b, y;
  int by_channel = -1;  // the operand with a byte a channel beside blocks
};

Result<Operands> read_operands(const KernelNode& node, const QuantizedForm& form) {
  const TensorSpec &a = input_spec(node, form.x[0].data), &b = input_spec(node, form.x[1].data);
  const TensorSpec& y = output_spec(node, 0);
  if (y.layout == Layout::kPlain) {
    TENON_TRY(expect_layout(a, Layout::kPlain, "An operand"));
    TENON_TRY(expect_layout(b, Layout::kPlain, "An operand"));
    return Operands{a.shape, b.shape, y.shape};
  }
  TENON_TRY_ASSIGN(const Lies of_a, read_lies(a, y));
  TENON_TRY_ASSIGN(const Lies of_b, read_lies(b, y));
  Operands operands{.y = {stored_count(y)}};
  if (of_a != Lies::kOnce) operands.a = operands.y;
  if (of_b != Lies::kOnce) operands.b = operands.y;
  if (of_a == Lies::kByChannel) operands.by_channel = 0;
  if (of_b == Lies::kByChannel) operands.by_channel = 1;
  TENON_UNSUPPORTED_IF(operands.by_channel >= 0 && of_a != Lies::kAlike && of_b != Lies::kAlike,
                       "No operand lies as the output does.");
  return operands;
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
    if (constexpr int64_t kGathered = 32; walk_.has_short_rows(kGathered)) {
      context.pool->parallel_for(walk_.count(), kGrain, [&](int64_t begin, int64_t end) {
        for (SpreadRows rows(walk_, {{a, 1}, {b, 1}}, begin, end); rows.next();)
          apply(rows.elements<uint8_t>(0), 1, rows.elements<uint8_t>(1), 1, steps, rows.count(), y + rows.at());
      });
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
    context.pool->parallel_for(
        planes_, std::max<int64_t>(1, kGrain / std::max<int64_t>(1, plane)), [&](int64_t begin, int64_t end) {
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
  return read_operands(node, form).status();
}

Result<std::unique_ptr<Kernel>> create_byte_binary(const KernelNode& node) {
  TENON_TRY_ASSIGN(const QuantizedForm form, read_quantized_form(*node.node));
  TENON_TRY_ASSIGN(const Operands operands, read_operands(node, form));
  TENON_TRY_ASSIGN(const BroadcastWalk walk, BroadcastWalk::create(operands.y, {&operands.a, &operands.b}));
  return std::unique_ptr<Kernel>(std::make_unique<ByteBinaryKernel>(node, walk, form, operands.by_channel));
}

}  // namespace tenon::cpu::nn
