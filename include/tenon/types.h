// Element types, shapes and memory spaces: plain values that every other header uses.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <span>
#include <string>
#include <string_view>

#include "tenon/export.h"
#include "tenon/status.h"

namespace tenon {

// Element type of a tensor. The numbers are ONNX's TensorProto.DataType (onnx 1.23.2).
enum class DataType : int32_t {
  kUndefined = 0,
  kFloat = 1,
  kUint8 = 2,
  kInt8 = 3,
  kUint16 = 4,
  kInt16 = 5,
  kInt32 = 6,
  kInt64 = 7,
  kString = 8,
  kBool = 9,
  kFloat16 = 10,
  kDouble = 11,
  kUint32 = 12,
  kUint64 = 13,
  kComplex64 = 14,
  kComplex128 = 15,
  kBfloat16 = 16,
  kFloat8E4M3FN = 17,
  kFloat8E4M3FNUZ = 18,
  kFloat8E5M2 = 19,
  kFloat8E5M2FNUZ = 20,
  kUint4 = 21,
  kInt4 = 22,
  kFloat4E2M1 = 23,
  kFloat8E8M0 = 24,
  kUint2 = 25,
  kInt2 = 26,
  kFloat6E2M3 = 27,
  kFloat6E3M2 = 28,
  // Not of ONNX: a sequence, an optional or a map; a tensor of this type has one of them (tenon/object.h).
  kObject = 63,
};

// "float32", "int64", "bool", ... (numpy's spelling where numpy has the type); "undefined" for a value outside the
// enum.
TENON_API std::string_view data_type_name(DataType type);
// Bits of one element: 32 for float32, 4 for int4; 0 for undefined and values outside the enum. A string's element is
// the address of its text, an object's the address of the object (tenon/object.h).
TENON_API int data_type_bits(DataType type);
// Bytes of one element; 0 for types below one byte and undefined.
TENON_API size_t data_type_size(DataType type);
// Strings and objects: their elements are addresses, which mean something on this host alone.
constexpr bool holds_addresses(DataType type) { return type == DataType::kString || type == DataType::kObject; }

// The dimensions of a tensor, stored inline: no heap. A rank above kMaxRank is refused where it enters (the model
// reader, the C++ API), so the class itself only checks it.
class TENON_API Shape {
 public:
  static constexpr int kMaxRank = 12;

  Shape() = default;  // a scalar
  Shape(std::initializer_list<int64_t> dims) : Shape(std::span<const int64_t>(dims.begin(), dims.size())) {}
  explicit Shape(std::span<const int64_t> dims);

  int rank() const { return rank_; }
  int64_t operator[](int axis) const { return dims_[static_cast<size_t>(axis)]; }
  int64_t& operator[](int axis) { return dims_[static_cast<size_t>(axis)]; }
  std::span<const int64_t> dims() const { return {dims_.data(), static_cast<size_t>(rank_)}; }
  const int64_t* begin() const { return dims_.data(); }
  const int64_t* end() const { return dims_.data() + rank_; }
  void push_back(int64_t dim);
  // Product of the dimensions; 1 for a scalar. Only for shapes that checked_element_count accepted.
  int64_t element_count() const;
  // The same with every dimension and product checked: negative dimensions and overflow are errors.
  Result<int64_t> checked_element_count() const;
  // "[1,3,736,960]", "[]".
  std::string to_string() const;

  friend bool operator==(const Shape& a, const Shape& b) {
    if (a.rank_ != b.rank_) return false;
    for (int i = 0; i < a.rank_; ++i)
      if (a[i] != b[i]) return false;
    return true;
  }

 private:
  int rank_ = 0;
  std::array<int64_t, kMaxRank> dims_{};
};

// Bytes that `shape` elements of `type` take when densely packed (6-, 4- and 2-bit types round up to a byte at the
// end). Errors: negative dimensions, overflow, a type without a size (undefined).
TENON_API Result<size_t> tensor_size_bytes(DataType type, const Shape& shape);

enum class DeviceType : uint8_t { kCpu = 0, kGpu = 1, kNpu = 2 };

// ONNX Runtime's OrtDeviceMemoryType: DEFAULT memory of a non-CPU device is addressable only there, unless `unified`.
enum class MemoryKind : uint8_t { kDefault = 0, kHostAccessible = 1 };

// A memory space: where a tensor's bytes live. A value; equal values are the same memory space.
struct MemorySpace {
  DeviceType device_type = DeviceType::kCpu;
  MemoryKind kind = MemoryKind::kDefault;
  uint32_t vendor_id = 0;  // PCI vendor id; 0 for the plain CPU device
  int32_t device_id = 0;
  uint32_t alignment = 0;  // bytes that addresses there are known to be aligned to; 0: unknown
  bool unified = false;    // the device declares that its DEFAULT memory is addressable by the host

  friend bool operator==(const MemorySpace&, const MemorySpace&) = default;
  // "cpu", "cpu:host_accessible", "gpu:0 (vendor 0x10de)".
  TENON_API std::string to_string() const;
};

// S3.1: may a consumer that wants its tensor in `target` use one that lives in `source` as it is? Pure and directed.
// A yes orders nothing: whoever reads first waits for the fence of the device that wrote.
TENON_API bool devices_are_memory_compatible(const MemorySpace& source, const MemorySpace& target);

}  // namespace tenon
