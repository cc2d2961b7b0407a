#include "ep/cpu/ops/conv/support.h"

#include <algorithm>
#include <cstdlib>
#include <new>

#include "ep/cpu/ops/vector_kernel.h"
#include "ep/cpu/simd/blocked.h"
#include "ep/cpu/simd/conv.h"

namespace tenon::cpu {

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
