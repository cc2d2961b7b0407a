// Elementwise operators on the blocked layout. Padding channels stay zero, whatever the operator makes of 0 op 0.
#include "ep/cpu/simd/blocked.h"
#include "ep/cpu/ops/blocked_rows.h"
#include "ep/cpu/ops/conv/support.h"

namespace tenon::cpu {

namespace {

constexpr int64_t kPixelsAChunk = 2048;

struct Planes {
  int64_t batch = 1, channels = 0, pixels = 1;
  int64_t blocks() const { return (channels + 7) / 8; }
  int lanes(int64_t block) const { return static_cast<int>(std::min<int64_t>(8, channels - block * 8)); }
};

Planes planes_of(const Shape& shape) {
  Planes planes{shape[0], shape[1], 1};
  for (int i = 2; i < shape.rank(); ++i) planes.pixels *= shape[i];
  return planes;
}

enum class OperandKind { kSame, kChannels, kImageChannels, kConstant };

// How `input` is read for an output of `shape`: as it is, per channel (of one image or of each), or from a constant.
Result<OperandKind> operand_kind(const KernelNode& node, size_t input, const Shape& shape) {
  const TensorSpec& spec = node.inputs[input];
  TENON_UNSUPPORTED_IF(spec.type != DataType::kFloat, "Input {} is {}, not float32.", input, data_type_name(spec.type));
  const Shape& own = spec.shape;
  if (node.constants[input] != nullptr) {
    // A scalar, or one value a channel.
    bool per_channel = own.rank() <= shape.rank();
    for (int i = 0; per_channel && i < own.rank(); ++i) {
      const int at = shape.rank() - own.rank() + i;
      per_channel = own[i] == 1 || (at == 1 && own[i] == shape[1]);
    }
    if (per_channel) return OperandKind::kConstant;
  }
  TENON_TRY(expect_layout(spec, Layout::kBlocked8, "An operand"));
  if (own == shape) return OperandKind::kSame;
  bool per_channel = own.rank() == shape.rank() && own[1] == shape[1] && (own[0] == 1 || own[0] == shape[0]);
  for (int i = 2; per_channel && i < own.rank(); ++i) per_channel = own[i] == 1;
  TENON_UNSUPPORTED_IF(!per_channel, "Shape {} is neither {} nor one value a channel.", own.to_string(),
                       shape.to_string());
  return own[0] == 1 ? OperandKind::kChannels : OperandKind::kImageChannels;
}

struct Operand {
  OperandKind kind = OperandKind::kSame;
  std::vector<float> constant;  // padded to whole blocks

  const float* at(const float* base, const Planes& planes, int64_t image, int64_t block, int64_t pixel) const {
    switch (kind) {
      case OperandKind::kSame:
        return base + ((image * planes.blocks() + block) * planes.pixels + pixel) * 8;
      case OperandKind::kChannels:
        return base + block * 8;
      case OperandKind::kImageChannels:
        return base + (image * planes.blocks() + block) * 8;
      case OperandKind::kConstant:
        break;
    }
    return constant.data() + block * 8;
  }
  int64_t step() const { return kind == OperandKind::kSame ? 8 : 0; }
};

BinaryKind binary_kind(std::string_view op_type) {
  if (op_type == "Add") return BinaryKind::kAdd;
  if (op_type == "Sub") return BinaryKind::kSub;
  if (op_type == "Mul") return BinaryKind::kMul;
  if (op_type == "Div") return BinaryKind::kDiv;
  if (op_type == "PRelu") return BinaryKind::kPRelu;
  return op_type == "Min" ? BinaryKind::kMin : BinaryKind::kMax;
}

class BlockedBinary final : public Kernel {
 public:
  static Result<std::unique_ptr<Kernel>> create(const KernelNode& node) {
    auto kernel = std::make_unique<BlockedBinary>();
    const Shape& shape = node.outputs[0].shape;
    kernel->planes_ = planes_of(shape);
    kernel->kind_ = binary_kind(node.node->op_type);
    for (size_t i = 0; i < 2; ++i) {
      Operand& operand = kernel->operands_[i];
      TENON_TRY_ASSIGN(operand.kind, operand_kind(node, i, shape));
      if (operand.kind != OperandKind::kConstant) continue;
      const std::span<const float> values = node.constants[i]->as<float>();
      operand.constant.assign(kernel->planes_.blocks() * 8, 0.0f);
      for (int64_t c = 0; c < shape[1]; ++c) operand.constant[c] = values[values.size() == 1 ? 0 : c];
    }
    return std::unique_ptr<Kernel>(std::move(kernel));
  }

  Status run(KernelContext& context) const override {
    const float* a = context.input<float>(0);
    const float* b = context.input<float>(1);
    float* y = context.output<float>(0);
    const int64_t blocks = planes_.blocks(), pixels = planes_.pixels;
    const int64_t chunks = (pixels + kPixelsAChunk - 1) / kPixelsAChunk;
    context.pool->parallel_for(
        planes_.batch * blocks * chunks, grain_of(std::min(kPixelsAChunk, pixels)), [&](int64_t begin, int64_t end) {
          for (int64_t item = begin; item < end; ++item) {
            const int64_t plane = item / chunks, image = plane / blocks, block = plane % blocks;
            const int64_t first = item % chunks * kPixelsAChunk;
            blocked_table().binary(kind_, Epilogue{}, operands_[0].at(a, planes_, image, block, first),
                                   operands_[0].step(), operands_[1].at(b, planes_, image, block, first),
                                   operands_[1].step(), y + (plane * pixels + first) * 8,
                                   std::min(kPixelsAChunk, pixels - first), planes_.lanes(block));
          }
        });
    return {};
  }
  bool may_run_in_place(size_t input, size_t) const override {
    return input < 2 && operands_[input].kind == OperandKind::kSame;
  }
  std::string_view name() const override { return "blocked_binary"; }

 private:
  Planes planes_;
  BinaryKind kind_ = BinaryKind::kAdd;
  Operand operands_[2];
};

class BlockedActivation final : public Kernel {
 public:
  BlockedActivation(const Shape& shape, const Epilogue& epilogue) : planes_(planes_of(shape)), epilogue_(epilogue) {}

  Status run(KernelContext& context) const override {
    const float* x = context.input<float>(0);
    float* y = context.output<float>(0);
    const int64_t blocks = planes_.blocks(), pixels = planes_.pixels;
    const int64_t chunks = (pixels + kPixelsAChunk - 1) / kPixelsAChunk;
    context.pool->parallel_for(
        planes_.batch * blocks * chunks, grain_of(std::min(kPixelsAChunk, pixels)), [&](int64_t begin, int64_t end) {
          for (int64_t item = begin; item < end; ++item) {
            const int64_t plane = item / chunks, first = item % chunks * kPixelsAChunk;
            const int64_t at = (plane * pixels + first) * 8;
            blocked_table().activate(epilogue_, x + at, nullptr, y + at, std::min(kPixelsAChunk, pixels - first),
                                     planes_.lanes(plane % blocks));
          }
        });
    return {};
  }
  bool may_run_in_place(size_t input, size_t) const override { return input == 0; }
  std::string_view name() const override { return "blocked_activation"; }

 private:
  Planes planes_;
  Epilogue epilogue_;
};

}  // namespace

Status match_blocked_binary(const KernelNode& node) {
  TENON_UNSUPPORTED_IF(node.inputs.size() != 2, "There are {} inputs, not 2.", node.inputs.size());
  TENON_TRY(expect_float(node.outputs[0]));
  TENON_TRY(expect_layout(node.outputs[0], Layout::kBlocked8, "The output"));
  const Shape& shape = node.outputs[0].shape;
  TENON_UNSUPPORTED_IF(shape.rank() < 3, "Rank {} is below 3.", shape.rank());
  bool any_same = false;
  for (size_t i = 0; i < 2; ++i) {
    TENON_TRY_ASSIGN(const OperandKind kind, operand_kind(node, i, shape));
    any_same = any_same || kind == OperandKind::kSame;
  }
  TENON_UNSUPPORTED_IF(!any_same, "No operand has the output's shape {}.", shape.to_string());
  return {};
}

Result<std::unique_ptr<Kernel>> create_blocked_binary(const KernelNode& node) { return BlockedBinary::create(node); }

Status match_blocked_activation(const KernelNode& node) {
  TENON_TRY(expect_float(node.inputs[0]));
  TENON_TRY(expect_float(node.outputs[0]));
  TENON_UNSUPPORTED_IF(node.inputs[0].shape.rank() < 3, "Rank {} is below 3.", node.inputs[0].shape.rank());
  TENON_TRY(expect_layout(node.inputs[0], Layout::kBlocked8, "The input"));
  TENON_TRY(expect_layout(node.outputs[0], Layout::kBlocked8, "The output"));
  return activation_of(node).status();
}

Result<std::unique_ptr<Kernel>> create_blocked_activation(const KernelNode& node) {
  TENON_TRY_ASSIGN(const Epilogue epilogue, activation_of(node));
  return std::unique_ptr<Kernel>(std::make_unique<BlockedActivation>(node.inputs[0].shape, epilogue));
}

}  // namespace tenon::cpu
