#include <tenon/tensor.h>

#include <cstdlib>

#include "base/checked.h"
#include "base/fault.h"
#include "base/status.h"
#include "base/system.h"
#include "device/element.h"

namespace tenon {

namespace {

constexpr size_t kAllocationAlignment = 64;

}  // namespace

size_t data_type_alignment(DataType type) {
  size_t size = data_type_size(type);
  if (type == DataType::kComplex64 || type == DataType::kComplex128) size /= 2;
  return size == 0 ? 1 : size;
}

Result<Tensor> Tensor::allocate(DataType type, const Shape& shape) {
  TENON_TRY_ASSIGN(const size_t size_bytes, tensor_size_bytes(type, shape));
  // Whole vectors, and never 0: kernels may load past the last element up to the alignment, and data() is not null.
  const auto padded = checked_add(size_bytes, 2 * kAllocationAlignment);
  TENON_INVALID_IF(!padded, "A {} tensor of shape {} overflows the address space.", data_type_name(type),
                   shape.to_string());
  TENON_FAULT_POINT("allocate");
  // The system may promise more than there is, and end the process when it is written.
  if (*padded > memory_bytes())
    return resource_exhausted("A {} tensor of shape {} takes {} bytes; there are {} bytes of memory.",
                              data_type_name(type), shape.to_string(), size_bytes, memory_bytes());
  // calloc takes fresh pages for large blocks, which need no clearing.
  void* block = std::calloc(*padded, 1);
  if (block == nullptr)
    return resource_exhausted("No memory is left for a {} tensor of shape {} ({} bytes).", data_type_name(type),
                              shape.to_string(), size_bytes);
  std::shared_ptr<const void> owner(block, [](const void* pointer) { std::free(const_cast<void*>(pointer)); });
  const auto address = (reinterpret_cast<uintptr_t>(block) + kAllocationAlignment - 1) & ~(kAllocationAlignment - 1);
  return view(type, shape, reinterpret_cast<void*>(address), size_bytes, std::move(owner),
              {.alignment = kAllocationAlignment});
}

Result<Tensor> Tensor::view(DataType type, const Shape& shape, void* data, size_t size_bytes,
                            std::shared_ptr<const void> owner, const MemorySpace& space) {
  TENON_TRY_ASSIGN(const size_t needed, tensor_size_bytes(type, shape));
  TENON_INVALID_IF(needed > size_bytes, "A {} tensor of shape {} takes {} bytes, but the memory has {}.",
                   data_type_name(type), shape.to_string(), needed, size_bytes);
  TENON_INVALID_IF(data == nullptr && size_bytes > 0, "The address of a {} tensor with {} bytes is null.",
                   data_type_name(type), size_bytes);
  const auto address = reinterpret_cast<uintptr_t>(data);
  TENON_INVALID_IF(!checked_add<uintptr_t>(address, size_bytes), "Address {:#x} plus size {} wraps around.", address,
                   size_bytes);
  const size_t alignment = data_type_alignment(type);
  TENON_INVALID_IF(address % alignment != 0, "Address {:#x} is not aligned to {} bytes, which {} elements need.",
                   address, alignment, data_type_name(type));
  TENON_INVALID_IF(space.alignment != 0 && address % space.alignment != 0,
                   "Address {:#x} does not have the alignment of {} bytes that its space declares.", address,
                   space.alignment);
  Tensor tensor;
  tensor.type_ = type;
  tensor.shape_ = shape;
  tensor.space_ = space;
  tensor.data_ = data;
  tensor.size_bytes_ = needed;
  tensor.capacity_bytes_ = size_bytes;
  tensor.owner_ = std::move(owner);
  return tensor;
}

Result<Tensor> Tensor::reinterpret(DataType type, const Shape& shape) const {
  TENON_INVALID_IF(!defined(), "An undefined tensor has no memory to view as {} {}.", data_type_name(type),
                   shape.to_string());
  TENON_TRY_ASSIGN(Tensor tensor, view(type, shape, data_, capacity_bytes_, owner_, space_));
  tensor.read_only_ = read_only_;
  return tensor;
}

}  // namespace tenon
