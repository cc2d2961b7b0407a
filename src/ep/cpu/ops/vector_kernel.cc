#include "ep/cpu/ops/vector_kernel.h"

#include <algorithm>
#include <bit>
#include <cstdint>
#include <cstdlib>
#include <cstring>

namespace tenon::cpu::nn {

namespace {

Status check_plain(const TensorSpec& spec, DataType type, const char* what) {
  if (!spec.present()) return {};
  TENON_UNSUPPORTED_IF(spec.type != type, "The {} is {}, not {}.", what, data_type_name(spec.type),
                       data_type_name(type));
  TENON_UNSUPPORTED_IF(spec.layout != Layout::kPlain, "The {} is not in the plain layout.", what);
  TENON_UNSUPPORTED_IF(spec.dynamic, "The size of the {} is not known beforehand.", what);
  return {};
}

}  // namespace

Status match_plain(const KernelNode& node, DataType type) {
  for (const TensorSpec& spec : node.inputs) TENON_TRY(check_plain(spec, type, "input"));
  for (const TensorSpec& spec : node.outputs) TENON_TRY(check_plain(spec, type, "output"));
  return {};
}

const Constant* constant_input(const KernelNode& node, size_t index) {
  return index < node.constants.size() ? node.constants[index].get() : nullptr;
}

namespace {

Result<std::shared_ptr<const std::byte>> packed(const KernelNode& node, std::span<const ConstantRef> constants,
                                                std::string_view format, size_t bytes, const PackFunction& pack) {
  if (node.weights != nullptr) return node.weights->get(constants, format, bytes, pack);
  const size_t room = aligned_bytes(bytes == 0 ? 1 : bytes);
  auto* memory = static_cast<std::byte*>(std::aligned_alloc(kScratchAlignment, room));
  if (memory == nullptr) return resource_exhausted("There is no memory for {} bytes of packed weights.", room);
  std::memset(memory, 0, room);
  pack(*constants.front(), memory);
  return std::shared_ptr<const std::byte>(memory, [](const std::byte* p) { std::free(const_cast<std::byte*>(p)); });
}

}  // namespace

Result<std::shared_ptr<const std::byte>> packed_constant(const KernelNode& node, std::span<const ConstantRef> constants,
                                                         std::string_view format, size_t bytes, const PackBytes& pack) {
  return packed(node, constants, format, bytes, [&](const Constant& weight, std::byte* to) {
    const std::shared_ptr<const std::byte> aligned = weight.data.read();
    pack(aligned.get(), to);
  });
}

Result<std::byte> found_in_constant(const KernelNode& node, const ConstantRef& constant, std::string_view name,
                                    const LookAtBytes& look) {
  const auto note = [&](const Constant& weight, std::byte* to) {
    *to = look({weight.data.stored(), weight.size_bytes});
  };
  TENON_TRY_ASSIGN(const std::shared_ptr<const std::byte> found, packed(node, std::span(&constant, 1), name, 1, note));
  return *found;
}

// By their bits: a comparison of floats may be as slow as a product.
void clear_subnormals(std::span<float> numbers) {
  constexpr uint32_t kExponent = 0x7f80'0000;
  for (float& number : numbers) {
    const auto bits = std::bit_cast<uint32_t>(number);
    number = std::bit_cast<float>((bits & kExponent) == 0 ? 0 : bits);
  }
}

namespace {

std::byte has_subnormals(std::span<const std::byte> floats) {
  constexpr uint32_t kExponent = 0x7f80'0000, kFraction = 0x007f'ffff;
  uint32_t any = 0;
  for (size_t at = 0; at < floats.size(); at += sizeof(float)) {
    uint32_t bits = 0;
    std::memcpy(&bits, &floats[at], sizeof bits);
    any |= (bits & kExponent) == 0 ? bits & kFraction : 0;
  }
  return static_cast<std::byte>(any != 0);
}

}  // namespace

Result<std::shared_ptr<const std::byte>> cleared_constant(const KernelNode& node, size_t index) {
  std::shared_ptr<const std::byte> none;
  if (constant_input(node, index) == nullptr) return none;
  const ConstantRef& constant = node.constants[index];
  const size_t count = constant->size_bytes / sizeof(float);
  TENON_TRY_ASSIGN(const std::byte found, found_in_constant(node, constant, "has subnormal numbers", &has_subnormals));
  if (found == std::byte{0}) return none;
  const auto clear = [&](const std::byte* weight, std::byte* out) {
    std::memcpy(out, weight, constant->size_bytes);
    clear_subnormals({reinterpret_cast<float*>(out), count});
  };
  return packed_constant(node, constant, "without subnormal numbers", constant->size_bytes, clear);
}

Result<int> checked_axis(int64_t axis, int rank) {
  TENON_INVALID_IF(axis < -rank || axis >= rank, "Axis {} is not in [{}, {}).", axis, -rank, rank);
  return static_cast<int>(axis < 0 ? axis + rank : axis);
}

int64_t span_count(const Shape& shape, int begin, int end) {
  int64_t count = 1;
  for (int i = begin; i < end; ++i) count *= shape[i];
  return count;
}

}  // namespace tenon::cpu::nn
