#include <bit>
#include <cstring>

#include "ep/cuda/compute/lowering.h"

namespace tenon::cuda {

namespace {

float from_half(uint16_t bits) {
  const uint32_t sign = static_cast<uint32_t>(bits & 0x8000) << 16, exponent = bits >> 10 & 31, fraction = bits & 1023;
  if (exponent == 0) {
    const float value = static_cast<float>(fraction) * 0x1p-24f;
    return sign != 0 ? -value : value;
  }
  const uint32_t wide = exponent == 31 ? 255 : exponent + 112;
  return std::bit_cast<float>(sign | wide << 23 | fraction << 13);
}

// All of them: a network has millions of weights, and 65536 different ones.
const std::vector<float>& half_table() {
  static const std::vector<float> table = [] {
    std::vector<float> values(65536);
    for (uint32_t bits = 0; bits < values.size(); ++bits) values[bits] = from_half(static_cast<uint16_t>(bits));
    return values;
  }();
  return table;
}

uint16_t to_half(float value) {
  const auto bits = std::bit_cast<uint32_t>(value);
  const auto sign = static_cast<uint16_t>(bits >> 16 & 0x8000);
  const uint32_t magnitude = bits & 0x7fffffff;
  if (magnitude > 0x7f800000) return static_cast<uint16_t>(sign | 0x7e00);
  if (magnitude >= 0x477ff000) return static_cast<uint16_t>(sign | 0x7c00);  // rounds to infinity
  if (magnitude < 0x38800000) {
    // Below the smallest normal number: adding 0.5 leaves the rounded fraction in the last bits.
    const float shifted = std::bit_cast<float>(magnitude) + 0.5f;
    return static_cast<uint16_t>(sign | (std::bit_cast<uint32_t>(shifted) - std::bit_cast<uint32_t>(0.5f)));
  }
  const uint32_t rounded = magnitude + 0xfff + (magnitude >> 13 & 1);
  return static_cast<uint16_t>(sign | (rounded - (112U << 23)) >> 13);
}

float from_bfloat(uint16_t bits) { return std::bit_cast<float>(static_cast<uint32_t>(bits) << 16); }

uint16_t to_bfloat(float value) {
  const auto bits = std::bit_cast<uint32_t>(value);
  if ((bits & 0x7fffffff) > 0x7f800000) return static_cast<uint16_t>(bits >> 16 | 0x40);
  return static_cast<uint16_t>((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

}  // namespace

std::vector<float> floats_of(const Constant& constant) {
  std::vector<float> values(data_type_size(constant.type) != 0 ? constant.size_bytes / data_type_size(constant.type)
                                                               : 0);
  switch (constant.type) {
    case DataType::kFloat:
      if (!values.empty()) std::memcpy(values.data(), constant.data, constant.size_bytes);
      break;
    case DataType::kFloat16:
      for (size_t i = 0; i < values.size(); ++i) values[i] = half_table()[constant.as<uint16_t>()[i]];
      break;
    case DataType::kBfloat16:
      for (size_t i = 0; i < values.size(); ++i) values[i] = from_bfloat(constant.as<uint16_t>()[i]);
      break;
    case DataType::kDouble:
      for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(constant.as<double>()[i]);
      break;
    default:
      values.clear();
  }
  return values;
}

void store_floats(std::span<const float> values, DataType type, std::byte* out) {
  auto* const halves = reinterpret_cast<uint16_t*>(out);
  if (type == DataType::kFloat16) {
    for (size_t i = 0; i < values.size(); ++i) halves[i] = to_half(values[i]);
  } else if (type == DataType::kBfloat16) {
    for (size_t i = 0; i < values.size(); ++i) halves[i] = to_bfloat(values[i]);
  } else if (!values.empty()) {
    std::memcpy(out, values.data(), values.size_bytes());
  }
}

void round_weights(std::span<float> values, DataType type, bool tf32) {
  if (!tf32 || type != DataType::kFloat) return;
  for (float& value : values) {
    const auto bits = std::bit_cast<uint32_t>(value);
    if ((bits & 0x7f800000) == 0x7f800000) continue;
    value = std::bit_cast<float>((bits + 0x0fff + (bits >> 13 & 1)) & 0xffffe000U);
  }
}

void convert_floats(const Constant& from, DataType to, std::byte* out) { store_floats(floats_of(from), to, out); }

}  // namespace tenon::cuda
