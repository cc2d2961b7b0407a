#include <bit>
#include <cstring>

#include "base/status.h"
#include "ep/cuda/compute/lowering.h"

namespace tenon::cuda {

namespace {

// Both without branches, so that loops over millions of weights become vector instructions.
float from_half(uint16_t bits) {
  const uint32_t sign = static_cast<uint32_t>(bits & 0x8000) << 16, magnitude = static_cast<uint32_t>(bits & 0x7fff)
                                                                                << 13;
  // The exponent's bias is 112 more; numbers below the smallest normal one come out right too.
  const auto finite = std::bit_cast<uint32_t>(std::bit_cast<float>(magnitude) * 0x1p112f);
  return std::bit_cast<float>(sign | (magnitude >= 0x0f800000U ? magnitude | 0x7f800000U : finite));
}

uint16_t to_half(float value) {
  const auto bits = std::bit_cast<uint32_t>(value);
  const uint32_t sign = bits >> 16 & 0x8000, magnitude = bits & 0x7fffffff;
  // Below the smallest normal number adding 0.5 leaves the rounded fraction in the last bits.
  const uint32_t small =
      std::bit_cast<uint32_t>(std::bit_cast<float>(magnitude) + 0.5f) - std::bit_cast<uint32_t>(0.5f);
  const uint32_t normal = (magnitude + 0xfff + (magnitude >> 13 & 1) - (112U << 23)) >> 13;
  const uint32_t finite = magnitude < 0x38800000U ? small : magnitude < 0x477ff000U ? normal : 0x7c00U;
  return static_cast<uint16_t>(sign | (magnitude > 0x7f800000U ? 0x7e00U : finite));
}

float from_bfloat(uint16_t bits) { return std::bit_cast<float>(static_cast<uint32_t>(bits) << 16); }

uint16_t to_bfloat(float value) {
  const auto bits = std::bit_cast<uint32_t>(value);
  if ((bits & 0x7fffffff) > 0x7f800000) return static_cast<uint16_t>(bits >> 16 | 0x40);
  return static_cast<uint16_t>((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

}  // namespace

void widen_floats(const Constant& constant, std::span<float> values) {
  TENON_DCHECK(values.size() * data_type_size(constant.type) == constant.size_bytes);
  const auto words = constant.as<uint16_t>();
  switch (constant.type) {
    case DataType::kFloat:
      if (!values.empty()) std::memcpy(values.data(), constant.data, constant.size_bytes);
      break;
    case DataType::kFloat16:
      for (size_t i = 0; i < values.size(); ++i) values[i] = from_half(words[i]);
      break;
    case DataType::kBfloat16:
      for (size_t i = 0; i < values.size(); ++i) values[i] = from_bfloat(words[i]);
      break;
    case DataType::kDouble:
      for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(constant.as<double>()[i]);
      break;
    default:
      break;
  }
}

std::vector<float> floats_of(const Constant& constant) {
  const bool is_float = constant.type == DataType::kFloat || constant.type == DataType::kFloat16 ||
                        constant.type == DataType::kBfloat16 || constant.type == DataType::kDouble;
  std::vector<float> values(is_float ? constant.size_bytes / data_type_size(constant.type) : 0);
  if (!values.empty()) widen_floats(constant, values);
  return values;
}

void store_floats(std::span<const float> values, DataType type, std::byte* out) {
  auto* const words = reinterpret_cast<uint16_t*>(out);
  if (type == DataType::kFloat16) {
    for (size_t i = 0; i < values.size(); ++i) words[i] = to_half(values[i]);
  } else if (type == DataType::kBfloat16) {
    for (size_t i = 0; i < values.size(); ++i) words[i] = to_bfloat(values[i]);
  } else if (!values.empty()) {
    std::memcpy(out, values.data(), values.size_bytes());
  }
}

void round_weights(std::span<float> values, DataType type, bool tf32) {
  if (!tf32 || type != DataType::kFloat) return;
  for (float& value : values) {
    const auto bits = std::bit_cast<uint32_t>(value);
    const uint32_t rounded = (bits + 0x0fff + (bits >> 13 & 1)) & 0xffffe000U;
    // No branch: with one, rounding took three times as long as transposing.
    value = std::bit_cast<float>((bits & 0x7f800000) == 0x7f800000 ? bits : rounded);
  }
}

void convert_floats(const Constant& from, DataType to, std::byte* out) {
  if (from.type == DataType::kFloat) {
    store_floats(from.as<float>(), to, out);
  } else if (to == DataType::kFloat && data_type_size(from.type) != 0) {
    widen_floats(from, {reinterpret_cast<float*>(out), from.size_bytes / data_type_size(from.type)});
  } else {
    store_floats(floats_of(from), to, out);
  }
}

}  // namespace tenon::cuda
