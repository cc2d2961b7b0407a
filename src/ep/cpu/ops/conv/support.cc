#include "ep/cpu/ops/conv/support.h"

#include <algorithm>
#include <cstdlib>
#include <new>

#include "ep/cpu/ops/vector_kernel.h"
#include "ep/cpu/simd/blocked.h"
#include "ep/cpu/simd/conv.h"

namespace tenon::cpu {

std::shared_ptr<float> aligned_floats(int64_t count) {
  const size_t bytes = round_up(std::max<int64_t>(count, 16) * 4, 64);
  void* memory = std::aligned_alloc(64, bytes);
  if (memory == nullptr) return nullptr;
  std::memset(memory, 0, bytes);
  return std::shared_ptr<float>(static_cast<float*>(memory), [](float* p) { std::free(p); });
}

Status expect_constant_floats(const KernelNode& node, size_t input, int64_t count) {
  TENON_UNSUPPORTED_IF(input >= node.constants.size() || node.constants[input] == nullptr, "Input {} is not constant.",
                       input);
  const Constant& constant = *node.constants[input];
  TENON_UNSUPPORTED_IF(constant.type != DataType::kFloat, "Input {} is {}, not float32.", input,
                       data_type_name(constant.type));
  const size_t values = constant.size_bytes / sizeof(float);
  TENON_INVALID_IF(static_cast<int64_t>(values) != count, "Input {} has {} values instead of {}.", input, values,
                   count);
  return {};
}

Result<std::span<const float>> constant_floats(const KernelNode& node, size_t input, int64_t count) {
  TENON_TRY(expect_constant_floats(node, input, count));
  return node.constants[input]->as<float>();
}

namespace {

Result<std::shared_ptr<const float>> pack_floats(const KernelNode& node, size_t input, std::string_view format,
                                                 int64_t floats, const PackFloats& pack) {
  if (node.weights != nullptr) {
    TENON_TRY_ASSIGN(std::shared_ptr<const std::byte> bytes,
                     node.weights->get(node.constants.subspan(input, 1), format, floats * sizeof(float),
                                       [&](const std::byte* weight, std::byte* memory) {
                                         pack(reinterpret_cast<const float*>(weight), reinterpret_cast<float*>(memory));
                                       }));
    const float* data = reinterpret_cast<const float*>(bytes.get());
    return std::shared_ptr<const float>(std::move(bytes), data);
  }
  std::shared_ptr<float> memory = aligned_floats(floats);
  if (memory == nullptr)
    return resource_exhausted("{} bytes of packed weights cannot be allocated.",
                              floats * static_cast<int64_t>(sizeof(float)));
  pack(reinterpret_cast<const float*>(node.constants[input]->data.read().get()), memory.get());
  return std::shared_ptr<const float>(std::move(memory));
}

}  // namespace

Result<std::shared_ptr<const float>> pack_weights(const KernelNode& node, size_t input, std::string_view format,
                                                  int64_t floats, const PackFloats& pack) {
  return pack_floats(node, input, format, floats, [&](const float* weight, float* memory) {
    pack(weight, memory);
    nn::clear_subnormals({memory, static_cast<size_t>(floats)});
  });
}

Result<ConvBias> ConvBias::create(const KernelNode& node, size_t input, int64_t outputs) {
  ConvBias bias;
  bias.padded_.assign(round_up(outputs, 8), 0.0f);
  bias.input_ = input;
  bias.outputs_ = outputs;
  if (input >= node.inputs.size() || !node.inputs[input].present()) return bias;
  const TensorSpec& spec = node.inputs[input];
  TENON_INVALID_IF(spec.type != DataType::kFloat || !(spec.shape == Shape{outputs}),
                   "The bias is {} {} instead of float32 [{}].", data_type_name(spec.type), spec.shape.to_string(),
                   outputs);
  bias.at_run_ = input >= node.constants.size() || node.constants[input] == nullptr;
  if (bias.at_run_) return bias;
  TENON_TRY_ASSIGN(const std::span<const float> values, constant_floats(node, input, outputs));
  std::copy(values.begin(), values.end(), bias.padded_.begin());
  nn::clear_subnormals(bias.padded_);
  return bias;
}

const float* ConvBias::values(const KernelContext& context, std::byte* scratch) const {
  if (!at_run_) return padded_.data();
  auto* padded = reinterpret_cast<float*>(scratch);
  const size_t bytes = outputs_ * sizeof(float);
  if (bytes > 0) std::memcpy(padded, context.inputs[input_], bytes);
  std::memset(padded + outputs_, 0, padded_.size() * sizeof(float) - bytes);
  return padded;
}

Status ConvResidual::match(const KernelNode& node, size_t input) {
  if (input >= node.inputs.size() || !node.inputs[input].present()) return {};
  if (input < node.constants.size() && node.constants[input] != nullptr) return {};
  return expect_layout(node.inputs[input], Layout::kBlocked8, "The residual");
}

Result<ConvResidual> ConvResidual::create(const KernelNode& node, size_t input) {
  ConvResidual residual;
  residual.input_ = input;
  if (input >= node.inputs.size() || !node.inputs[input].present()) return residual;
  if (input >= node.constants.size() || node.constants[input] == nullptr) return residual;
  const Shape& shape = node.inputs[input].shape;
  TENON_INVALID_IF(!(shape == node.outputs[0].shape), "The residual is {} instead of {}.", shape.to_string(),
                   node.outputs[0].shape.to_string());
  TENON_TRY(expect_constant_floats(node, input, shape.element_count()));
  const int64_t batch = shape[0], channels = shape[1], blocks = (channels + 7) / 8;
  int64_t pixels = 1;
  for (int d = 2; d < shape.rank(); ++d) pixels *= shape[d];
  // The padding of the last block stays zero, as the memory comes.
  auto pack = [&](const float* from, float* out) {
    for (int64_t n = 0; n < batch; ++n)
      for (int64_t c = 0; c < channels; ++c)
        for (int64_t p = 0; p < pixels; ++p) out[((n * blocks + c / 8) * pixels + p) * 8 + c % 8] = *from++;
  };
  TENON_TRY_ASSIGN(residual.constant_, pack_floats(node, input, format("blocked8 {}", shape.to_string()),
                                                   batch * blocks * pixels * 8, pack));
  return residual;
}

std::vector<OutputTile> output_tiles(int64_t blocks, int64_t floats_per_block) {
  const int64_t most = conv_table().widths;
  std::vector<OutputTile> tiles;
  int64_t block = 0;
  while (block < blocks) {
    const int64_t left = blocks - block;
    int64_t width = most;
    if (most == 3)
      width = left == 1 || left == 3 ? left : 2;
    else if (left <= most)
      width = left;
    else if (left < most + 3)
      width = 4;  // and 3 or 4
    tiles.push_back({block, static_cast<int>(width), block * floats_per_block});
    block += width;
  }
  return tiles;
}

ScratchSlots::Claim::Claim(ScratchSlots& slots) : slots_(slots) {
  const uint64_t all = slots.slots_ >= 64 ? ~uint64_t{0} : (uint64_t{1} << slots.slots_) - 1;
  // There are as many slots as threads of the pool; a spin can happen only if more of them come.
  for (;;) {
    uint64_t taken = slots.taken_.load(std::memory_order_relaxed);
    const uint64_t free = ~taken & all;
    if (free == 0) continue;
    const uint64_t bit = free & (~free + 1);
    if (slots.taken_.compare_exchange_weak(taken, taken | bit, std::memory_order_acquire)) {
      index_ = __builtin_ctzll(bit);
      return;
    }
  }
}

ScratchSlots::Claim::~Claim() { slots_.taken_.fetch_and(~(uint64_t{1} << index_), std::memory_order_release); }

int scratch_slots(const KernelNode& node) {
  return node.pool == nullptr ? 1 : std::clamp(node.pool->threads(), 1, kMaxScratchSlots);
}

Status expect_layout(const TensorSpec& spec, Layout layout, const char* what) {
  TENON_UNSUPPORTED_IF(spec.present() && spec.layout != layout, "{} is {}, not {}.", what,
                       spec.layout == Layout::kPlain ? "plain" : "blocked",
                       layout == Layout::kPlain ? "plain" : "blocked");
  return {};
}

void finish_run(const Epilogue& epilogue, float* y, const float* residual, int64_t count) {
  if (residual == nullptr && epilogue.activation == Activation::kNone) return;
  // The table's residual comes after the activation.
  if (residual != nullptr && !epilogue.residual_after) {
    for (int64_t i = 0; i < count; ++i) y[i] += residual[i];
    residual = nullptr;
  }
  const int64_t whole = count / 8 * 8, rest = count - whole;
  blocked_table().activate(epilogue, y, residual, y, whole / 8, 8);
  if (rest == 0) return;
  float values[8] = {}, added[8] = {};
  std::copy_n(y + whole, rest, values);
  if (residual != nullptr) std::copy_n(residual + whole, rest, added);
  blocked_table().activate(epilogue, values, residual != nullptr ? added : nullptr, values, 1, 8);
  std::copy_n(values, rest, y + whole);
}

}  // namespace tenon::cpu
