#include "ep/cpu/ops/kernel_support.h"

#include <cstdlib>
#include <cstring>
#include <utility>

#include "ep/cpu/ops/vector_kernel.h"
#include "tenon/thread_pool.h"

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

Result<std::shared_ptr<const float>> pack_floats(const KernelNode& node, size_t input, std::string_view format,
                                                 int64_t floats, const PackFloats& pack) {
  if (node.weights != nullptr) {
    TENON_TRY_ASSIGN(std::shared_ptr<const std::byte> bytes,
                     node.weights->get(node.constants.subspan(input, 1), format, floats * sizeof(float),
                                       [&](const Constant& weight, std::byte* memory) {
                                         const std::shared_ptr<const std::byte> aligned = weight.data.read();
                                         pack(reinterpret_cast<const float*>(aligned.get()),
                                              reinterpret_cast<float*>(memory));
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

Result<std::shared_ptr<const float>> pack_weights(const KernelNode& node, size_t input, std::string_view format,
                                                  int64_t floats, const PackFloats& pack) {
  return pack_floats(node, input, format, floats, [&](const float* weight, float* memory) {
    pack(weight, memory);
    nn::clear_subnormals({memory, static_cast<size_t>(floats)});
  });
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

Status expect_float(const TensorSpec& spec) {
  TENON_UNSUPPORTED_IF(spec.type != DataType::kFloat, "Only float32 is served, not {}.", data_type_name(spec.type));
  return {};
}

Status expect_blocked_type(const TensorSpec& spec) {
  TENON_UNSUPPORTED_IF(spec.type != DataType::kFloat && !is_byte_type(spec.type),
                       "Only float32, uint8 and int8 are served, not {}.", data_type_name(spec.type));
  return {};
}

Status expect_known(const KernelNode& node) {
  for (std::span<const TensorSpec> specs : {node.inputs, node.outputs})
    for (const TensorSpec& spec : specs)
      TENON_UNSUPPORTED_IF(spec.present() && spec.dynamic, "The size of a tensor is not known beforehand.");
  return {};
}

Status expect_one_layout(const KernelNode& node) {
  TENON_TRY(expect_known(node));
  TENON_UNSUPPORTED_IF(node.inputs.empty() || node.outputs.empty() || node.inputs[0].layout != node.outputs[0].layout,
                       "Input and output have different layouts.");
  if (node.inputs[0].layout == Layout::kPlain) return {};
  TENON_TRY(expect_blocked_type(node.inputs[0]));
  return expect_blocked_type(node.outputs[0]);
}

int64_t stored_count(const TensorSpec& spec) {
  return static_cast<int64_t>(spec.size_bytes() / std::max<size_t>(1, data_type_size(spec.type)));
}

}  // namespace tenon::cpu
