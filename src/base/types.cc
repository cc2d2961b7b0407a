#include <tenon/types.h>

#include "base/checked.h"
#include "base/status.h"

namespace tenon {

namespace {

struct TypeRow {
  const char* name;
  int bits;
};

constexpr int kAddressBits = 8 * sizeof(void*);
constexpr TypeRow kObjectRow = {"object", kAddressBits};

constexpr TypeRow kTypes[] = {
    {"undefined", 0},         {"float32", 32},     {"uint8", 8},          {"int8", 8},
    {"uint16", 16},           {"int16", 16},       {"int32", 32},         {"int64", 64},
    {"string", kAddressBits}, {"bool", 8},         {"float16", 16},       {"float64", 64},
    {"uint32", 32},           {"uint64", 64},      {"complex64", 64},     {"complex128", 128},
    {"bfloat16", 16},         {"float8e4m3fn", 8}, {"float8e4m3fnuz", 8}, {"float8e5m2", 8},
    {"float8e5m2fnuz", 8},    {"uint4", 4},        {"int4", 4},           {"float4e2m1", 4},
    {"float8e8m0", 8},        {"uint2", 2},        {"int2", 2},           {"float6e2m3", 6},
    {"float6e3m2", 6},
};

const TypeRow& row(DataType type) {
  if (type == DataType::kObject) return kObjectRow;
  const auto index = static_cast<size_t>(type);
  return index < std::size(kTypes) ? kTypes[index] : kTypes[0];
}

}  // namespace

std::string_view data_type_name(DataType type) { return row(type).name; }
int data_type_bits(DataType type) { return row(type).bits; }
size_t data_type_size(DataType type) { return row(type).bits / 8; }

Shape::Shape(std::span<const int64_t> dims) {
  TENON_CHECK(dims.size() <= kMaxRank);
  for (int64_t dim : dims) dims_[rank_++] = dim;
}

void Shape::push_back(int64_t dim) {
  TENON_CHECK(rank_ < kMaxRank);
  dims_[rank_++] = dim;
}

int64_t Shape::element_count() const {
  // Unsigned, so that large sizes beside a zero are no undefined overflow.
  uint64_t count = 1;
  for (int64_t dim : dims()) count *= static_cast<uint64_t>(dim);
  return static_cast<int64_t>(count);
}

Result<int64_t> Shape::checked_element_count() const {
  for (int64_t dim : dims()) TENON_INVALID_IF(dim < 0, "Shape {} has the negative dimension {}.", to_string(), dim);
  const std::optional<int64_t> count = checked_product(dims());
  TENON_INVALID_IF(!count, "The number of elements of shape {} overflows 64 bits.", to_string());
  return *count;
}

std::string Shape::to_string() const {
  std::string text = "[";
  for (int i = 0; i < rank_; ++i) {
    if (i > 0) text += ',';
    text += std::to_string((*this)[i]);
  }
  return text + "]";
}

Result<size_t> tensor_size_bytes(DataType type, const Shape& shape) {
  const int bits = data_type_bits(type);
  TENON_INVALID_IF(bits == 0, "Elements of type {} ({}) have no size in bytes.", data_type_name(type),
                   static_cast<int>(type));
  TENON_TRY_ASSIGN(const int64_t count, shape.checked_element_count());
  const auto total_bits = checked_mul<int64_t>(count, bits);
  TENON_INVALID_IF(!total_bits || *total_bits > INT64_MAX - 7, "A {} tensor of shape {} overflows 64 bits of size.",
                   data_type_name(type), shape.to_string());
  return (*total_bits + 7) / 8;
}

std::string MemorySpace::to_string() const {
  static constexpr const char* kNames[] = {"cpu", "gpu", "npu"};
  const auto index = static_cast<size_t>(device_type);
  std::string text = index < std::size(kNames) ? kNames[index] : "unknown";
  if (device_type != DeviceType::kCpu || device_id != 0) text += format(":{}", device_id);
  if (vendor_id != 0) text += format(" (vendor {:#06x})", vendor_id);
  if (kind == MemoryKind::kHostAccessible) text += ":host_accessible";
  return text;
}

}  // namespace tenon
