#include <tenon/dlpack.h>

#include <cstring>

#include "base/checked.h"
#include "base/fault.h"
#include "base/status.h"
#include "interop/dlpack_memory.h"
#include "interop/dlpack_types.h"

namespace tenon {

namespace {

struct TypeRow {
  DataType type;
  uint8_t code;
};

// The bits follow from the type.
constexpr TypeRow kTypes[] = {
    {DataType::kFloat, kDlpackFloat},
    {DataType::kUint8, kDlpackUint},
    {DataType::kInt8, kDlpackInt},
    {DataType::kUint16, kDlpackUint},
    {DataType::kInt16, kDlpackInt},
    {DataType::kInt32, kDlpackInt},
    {DataType::kInt64, kDlpackInt},
    {DataType::kBool, kDlpackBool},
    {DataType::kFloat16, kDlpackFloat},
    {DataType::kDouble, kDlpackFloat},
    {DataType::kUint32, kDlpackUint},
    {DataType::kUint64, kDlpackUint},
    {DataType::kComplex64, kDlpackComplex},
    {DataType::kComplex128, kDlpackComplex},
    {DataType::kBfloat16, kDlpackBfloat},
    {DataType::kFloat8E4M3FN, kDlpackFloat8E4M3FN},
    {DataType::kFloat8E4M3FNUZ, kDlpackFloat8E4M3FNUZ},
    {DataType::kFloat8E5M2, kDlpackFloat8E5M2},
    {DataType::kFloat8E5M2FNUZ, kDlpackFloat8E5M2FNUZ},
    {DataType::kFloat8E8M0, kDlpackFloat8E8M0},
};

Result<DataType> type_from_dlpack(const DLDataType& dtype) {
  TENON_UNSUPPORTED_IF(dtype.lanes != 1, "DLPack tensors of {} lanes are not supported.", dtype.lanes);
  for (const TypeRow& row : kTypes)
    if (row.code == dtype.code && data_type_bits(row.type) == dtype.bits) return row.type;
  return unsupported("DLPack elements of type code {} with {} bits are not supported.", dtype.code, dtype.bits);
}

Result<DLDataType> type_to_dlpack(DataType type) {
  for (const TypeRow& row : kTypes)
    if (row.type == type)
      return DLDataType{.code = row.code, .bits = static_cast<uint8_t>(data_type_bits(type)), .lanes = 1};
  return unsupported("DLPack has no type for {} elements.", data_type_name(type));
}

// Device types of the specification that a CUDA device addresses; the older header lacks the second.
constexpr int32_t kCuda = 2, kCudaManaged = 13;
constexpr uint32_t kNvidia = 0x10de;

// As an integer: a producer's newer device is no value of our enum.
int32_t kind_of(const DLDevice& device) {
  int32_t kind = 0;
  std::memcpy(&kind, &device.device_type, sizeof(kind));
  return kind;
}

Status check_device(const DLDevice& device) {
  const int32_t kind = kind_of(device);
  TENON_UNSUPPORTED_IF(kind != kDLCPU && kind != kDLCUDAHost,
                       "A DLPack tensor of device type {} (device {}) is not addressable by the host.", kind,
                       device.device_id);
  return Status();
}

Result<MemorySpace> space_of(const DLDevice& device) {
  const int32_t kind = kind_of(device);
  if (kind == kDLCPU || kind == kDLCUDAHost) return MemorySpace{};
  TENON_UNSUPPORTED_IF(kind != kCuda && kind != kCudaManaged,
                       "A DLPack tensor of device type {} (device {}) is memory of neither the host nor a CUDA device.",
                       kind, device.device_id);
  TENON_INVALID_IF(device.device_id < 0, "A DLPack tensor lies on CUDA device {}.", device.device_id);
  return MemorySpace{.device_type = DeviceType::kGpu,
                     .kind = kind == kCuda ? MemoryKind::kDefault : MemoryKind::kHostAccessible,
                     .vendor_id = kNvidia,
                     .device_id = device.device_id};
}

Result<DLDevice> device_of(const MemorySpace& space) {
  if (devices_are_memory_compatible(space, MemorySpace{})) return DLDevice{.device_type = kDLCPU, .device_id = 0};
  TENON_UNSUPPORTED_IF(space.device_type != DeviceType::kGpu || space.vendor_id != kNvidia,
                       "DLPack has no device for memory in {}.", space.to_string());
  return DLDevice{.device_type = kDLCUDA, .device_id = space.device_id};
}

Status check_cuda_device(const DLDevice& device, int ordinal) {
  const int32_t kind = kind_of(device);
  TENON_UNSUPPORTED_IF(kind != kCuda && kind != kCudaManaged,
                       "A DLPack tensor of device type {} (device {}) is no memory of a CUDA device.", kind,
                       device.device_id);
  TENON_UNSUPPORTED_IF(kind == kCuda && device.device_id != ordinal,
                       "A DLPack tensor lies on CUDA device {}; this importer is of device {}.", device.device_id,
                       ordinal);
  return Status();
}

Result<Shape> shape_from_dlpack(const DLTensor& tensor) {
  TENON_INVALID_IF(tensor.ndim < 0 || tensor.ndim > Shape::kMaxRank,
                   "A DLPack tensor has {} dimensions; 0 to {} are possible.", tensor.ndim, Shape::kMaxRank);
  TENON_INVALID_IF(tensor.ndim > 0 && tensor.shape == nullptr, "A DLPack tensor of {} dimensions has a null shape.",
                   tensor.ndim);
  Shape shape(std::span<const int64_t>(tensor.shape, tensor.ndim));
  TENON_TRY_ASSIGN(const int64_t count, shape.checked_element_count());
  if (tensor.strides == nullptr || count == 0) return shape;
  int64_t dense = 1;
  for (int axis = shape.rank() - 1; axis >= 0; --axis) {
    TENON_UNSUPPORTED_IF(shape[axis] != 1 && tensor.strides[axis] != dense,
                         "A DLPack tensor of shape {} has the stride {} on axis {}; dense row-major memory has {}.",
                         shape.to_string(), tensor.strides[axis], axis, dense);
    dense *= shape[axis];
  }
  return shape;
}

// Whatever device the tensor is on: the view is no promise that the host can read it.
Result<Tensor> view_any_dlpack(const DLTensor& tensor, const MemorySpace& space = {}) {
  TENON_TRY_ASSIGN(const DataType type, type_from_dlpack(tensor.dtype));
  TENON_TRY_ASSIGN(const Shape shape, shape_from_dlpack(tensor));
  TENON_TRY_ASSIGN(const size_t size_bytes, tensor_size_bytes(type, shape));
  const auto begin = checked_add<uintptr_t>(reinterpret_cast<uintptr_t>(tensor.data), tensor.byte_offset);
  TENON_INVALID_IF(!begin, "A DLPack tensor's address plus its offset ({}) wraps around.", tensor.byte_offset);
  TENON_INVALID_IF(tensor.data == nullptr && size_bytes > 0, "A DLPack tensor of {} bytes has a null address.",
                   size_bytes);
  return Tensor::view(type, shape, reinterpret_cast<void*>(*begin), size_bytes, nullptr, space);
}

Result<Tensor> view_dlpack(const DLTensor& tensor) {
  TENON_TRY(check_device(tensor.device));
  return view_any_dlpack(tensor);
}

// Gives the tensor back to its producer, unless it never became ours (see ExternalHandle::taken).
template <typename Managed>
std::shared_ptr<const void> owner_of(Managed* managed, std::shared_ptr<bool> taken = nullptr) {
  return std::shared_ptr<const void>(managed, [taken = std::move(taken)](Managed* last) {
    if ((taken == nullptr || *taken) && last->deleter != nullptr) last->deleter(last);
  });
}

Status check_version(const DLManagedTensorVersioned& managed) {
  TENON_UNSUPPORTED_IF(managed.version.major != kDlpackMajor,
                       "A DLPack tensor has version {}.{}; this build knows version {}.", managed.version.major,
                       managed.version.minor, kDlpackMajor);
  return Status();
}

// The transaction: everything is checked before `managed` is taken, and taking cannot fail.
template <typename Managed>
Result<Tensor> take(Managed* managed, std::shared_ptr<bool> taken = nullptr) {
  TENON_TRY_ASSIGN(const MemorySpace space, space_of(managed->dl_tensor.device));
  TENON_TRY_ASSIGN(Tensor checked, view_any_dlpack(managed->dl_tensor, space));
  TENON_FAULT_POINT("allocate");
  return Tensor::view(checked.type(), checked.shape(), checked.data(), checked.capacity_bytes(),
                      owner_of(managed, std::move(taken)), space);
}

class DlpackMemory final : public ExternalMemory {
 public:
  DlpackMemory(const ExternalMemoryDescriptor& descriptor, Tensor tensor)
      : descriptor_(descriptor), tensor_(std::move(tensor)) {}

  void* data() const override { return static_cast<std::byte*>(tensor_.data()) + descriptor_.offset_bytes; }
  size_t size_bytes() const override { return descriptor_.size_bytes; }
  ExternalMemoryKind kind() const override { return ExternalMemoryKind::kDlpack; }
  const std::string& name() const override { return descriptor_.name; }
  bool writable() const override { return descriptor_.writable; }
  Status check() const override { return Status(); }

 private:
  const ExternalMemoryDescriptor descriptor_;
  const Tensor tensor_;  // owns the producer's struct
};

Status check_versioned(const ExternalHandle& handle, const std::string& what) {
  if (!handle.dlpack_versioned) return Status();
  const auto& managed = *static_cast<const DLManagedTensorVersioned*>(handle.pointer);
  TENON_TRY(check_version(managed));
  TENON_INVALID_IF(!handle.read_only && (managed.flags & kDlpackReadOnly) != 0,
                   "The DLPack tensor{} is read-only, but writable memory is asked for.", what);
  return Status();
}

// The struct that the handle points to, by its version.
template <typename Visit>
auto with_managed(const ExternalHandle& handle, const Visit& visit) {
  return handle.dlpack_versioned ? visit(static_cast<DLManagedTensorVersioned*>(handle.pointer))
                                 : visit(static_cast<DLManagedTensor*>(handle.pointer));
}

// The object behind a consumer's pointer: the struct that it sees, and the data that the struct points to.
template <typename Managed>
struct Exported {
  Managed managed{};
  Tensor tensor;
  int64_t shape[Shape::kMaxRank] = {};
  int64_t strides[Shape::kMaxRank] = {};
};

template <typename Managed>
Result<Managed*> export_tensor(const Tensor& tensor) {
  TENON_INVALID_IF(!tensor.defined(), "An undefined tensor cannot be exported.");
  TENON_TRY_ASSIGN(const DLDevice device, device_of(tensor.space()));
  TENON_TRY_ASSIGN(const DLDataType dtype, type_to_dlpack(tensor.type()));
  TENON_FAULT_POINT("allocate");
  auto exported = std::make_unique<Exported<Managed>>();
  exported->tensor = tensor;
  int64_t stride = 1;
  for (int axis = tensor.shape().rank() - 1; axis >= 0; --axis) {
    exported->shape[axis] = tensor.shape()[axis];
    exported->strides[axis] = stride;
    stride *= tensor.shape()[axis];
  }
  exported->managed.dl_tensor = {.data = tensor.data(),
                                 .device = device,
                                 .ndim = tensor.shape().rank(),
                                 .dtype = dtype,
                                 .shape = exported->shape,
                                 .strides = exported->strides,
                                 .byte_offset = 0};
  exported->managed.manager_ctx = exported.get();
  exported->managed.deleter = [](Managed* self) { delete static_cast<Exported<Managed>*>(self->manager_ctx); };
  return &exported.release()->managed;
}

}  // namespace

Result<std::shared_ptr<ExternalMemory>> map_dlpack(const ExternalHandle& handle,
                                                   const ExternalMemoryDescriptor& descriptor,
                                                   const std::string& what) {
  TENON_TRY(check_versioned(handle, " of " + what));
  return with_managed(handle, [&](auto* managed) -> Result<std::shared_ptr<ExternalMemory>> {
    TENON_TRY_ASSIGN(const Tensor view, view_dlpack(managed->dl_tensor));
    const auto end = checked_add(descriptor.offset_bytes, descriptor.size_bytes);
    TENON_INVALID_IF(!end || *end > view.size_bytes(), "Offset ({}) plus size ({}) of {} exceed the tensor's {} bytes.",
                     descriptor.offset_bytes, descriptor.size_bytes, what, view.size_bytes());
    TENON_TRY_ASSIGN(Tensor tensor, take(managed, handle.taken));
    return std::shared_ptr<ExternalMemory>(std::make_shared<DlpackMemory>(descriptor, std::move(tensor)));
  });
}

Result<DlpackBytes> map_cuda_dlpack(const ExternalHandle& handle, int ordinal, size_t size_bytes, size_t offset_bytes) {
  TENON_TRY(check_versioned(handle, ""));
  return with_managed(handle, [&](auto* managed) -> Result<DlpackBytes> {
    TENON_TRY(check_cuda_device(managed->dl_tensor.device, ordinal));
    TENON_TRY_ASSIGN(const Tensor view, view_any_dlpack(managed->dl_tensor));
    const auto end = checked_add(offset_bytes, size_bytes);
    TENON_INVALID_IF(!end || *end > view.size_bytes(),
                     "offset_bytes ({}) plus size_bytes ({}) exceed the DLPack tensor's {} bytes.", offset_bytes,
                     size_bytes, view.size_bytes());
    TENON_FAULT_POINT("allocate");
    return DlpackBytes{.data = static_cast<std::byte*>(const_cast<void*>(view.data())) + offset_bytes,
                       .size_bytes = size_bytes,
                       .owner = owner_of(managed, handle.taken)};
  });
}

Result<Tensor> tensor_from_dlpack(DLManagedTensor* managed) {
  TENON_INVALID_IF(managed == nullptr, "The DLPack tensor is null.");
  return take(managed);
}

Result<Tensor> tensor_from_dlpack(DLManagedTensorVersioned* managed, bool allow_read_only) {
  TENON_INVALID_IF(managed == nullptr, "The DLPack tensor is null.");
  TENON_TRY(check_version(*managed));
  const bool read_only = (managed->flags & kDlpackReadOnly) != 0;
  TENON_INVALID_IF(read_only && !allow_read_only, "A DLPack tensor is read-only, and the caller does not allow that.");
  TENON_TRY_ASSIGN(Tensor tensor, take(managed));
  return read_only ? tensor.as_read_only() : tensor;
}

Result<DLManagedTensor*> tensor_to_dlpack(const Tensor& tensor) {
  TENON_UNSUPPORTED_IF(tensor.read_only(),
                       "A read-only tensor needs the versioned DLPack struct: the older one cannot say so.");
  return export_tensor<DLManagedTensor>(tensor);
}

Result<DLManagedTensorVersioned*> tensor_to_dlpack_versioned(const Tensor& tensor) {
  TENON_TRY_ASSIGN(DLManagedTensorVersioned * managed, export_tensor<DLManagedTensorVersioned>(tensor));
  managed->version = {.major = kDlpackMajor, .minor = 0};
  managed->flags = tensor.read_only() ? kDlpackReadOnly : 0;
  return managed;
}

}  // namespace tenon
