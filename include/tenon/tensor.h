// A typed, shaped view of memory, with a reference to the owner of this memory.
//
// Ownership: a Tensor is a cheap handle; copies share the same memory. The owner (an allocation, an import, a DLPack
// capsule, the caller's own object) lives until the last Tensor that views it is gone, so handles may be dropped in any
// order.
// Threads: a Tensor is a value; the bytes behind it are the caller's to synchronise (fences).
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "tenon/types.h"

namespace tenon {

class TENON_API Tensor {
 public:
  Tensor() = default;  // no tensor: defined() is false

  // Zero-filled host memory, aligned to 64 bytes.
  static Result<Tensor> allocate(DataType type, const Shape& shape);
  // A view of memory that is already there: no copy. `size_bytes` is the room behind `data`; the tensor must fit and
  // `data` must be aligned to the element. `owner` may be null: then the caller keeps the memory alive.
  static Result<Tensor> view(DataType type, const Shape& shape, void* data, size_t size_bytes,
                             std::shared_ptr<const void> owner = nullptr, const MemorySpace& space = {});

  bool defined() const { return type_ != DataType::kUndefined; }
  DataType type() const { return type_; }
  const Shape& shape() const { return shape_; }
  const MemorySpace& space() const { return space_; }
  // Bytes that type and shape take.
  size_t size_bytes() const { return size_bytes_; }
  // Room behind data(); at least size_bytes(). An output may be bound to a larger buffer than it needs.
  size_t capacity_bytes() const { return capacity_bytes_; }
  void* data() const { return data_; }
  template <typename T>
  T* data_as() const {
    return static_cast<T*>(data_);
  }
  const std::shared_ptr<const void>& owner() const { return owner_; }
  // True for memory that must not be written (a read-only mapping): such a tensor cannot be bound as an output.
  bool read_only() const { return read_only_; }
  // The same view, marked read-only.
  Tensor as_read_only() const {
    Tensor tensor = *this;
    tensor.read_only_ = true;
    return tensor;
  }
  // The same memory with another shape (or type) that fits into capacity_bytes().
  Result<Tensor> reinterpret(DataType type, const Shape& shape) const;

 private:
  DataType type_ = DataType::kUndefined;
  Shape shape_;
  MemorySpace space_;
  void* data_ = nullptr;
  size_t size_bytes_ = 0;
  size_t capacity_bytes_ = 0;
  std::shared_ptr<const void> owner_;
  bool read_only_ = false;
};

}  // namespace tenon
