#include <tenon/external_memory.h>

#include "base/checked.h"
#include "base/fault.h"
#include "base/log.h"
#include "base/status.h"
#include "interop/dlpack_memory.h"
#include "interop/fd_memory.h"
#include "interop/handle_table.h"
#include "interop/importer.h"

namespace tenon {

namespace {

class HostAllocation final : public ExternalMemory {
 public:
  HostAllocation(const ExternalMemoryDescriptor& descriptor, void* data) : descriptor_(descriptor), data_(data) {}

  void* data() const override { return data_; }
  size_t size_bytes() const override { return descriptor_.size_bytes; }
  ExternalMemoryKind kind() const override { return descriptor_.kind; }
  const std::string& name() const override { return descriptor_.name; }
  bool writable() const override { return descriptor_.writable; }
  Status check() const override { return Status(); }

 private:
  const ExternalMemoryDescriptor descriptor_;
  void* const data_;
};

Result<std::shared_ptr<ExternalMemory>> import_host_allocation(OwnedHandle& handle,
                                                               const ExternalMemoryDescriptor& descriptor,
                                                               const std::string& what) {
  const auto address = reinterpret_cast<uintptr_t>(handle.pointer());
  const auto begin = checked_add<uintptr_t>(address, descriptor.offset_bytes);
  TENON_INVALID_IF(!begin || !checked_add<uintptr_t>(*begin, descriptor.size_bytes),
                   "Address ({:#x}) plus offset ({}) plus size ({}) of {} wrap around.", address,
                   descriptor.offset_bytes, descriptor.size_bytes, what);
  TENON_FAULT_POINT("allocate");
  auto memory = std::make_shared<HostAllocation>(descriptor, reinterpret_cast<void*>(*begin));
  handle.reset();
  return std::shared_ptr<ExternalMemory>(std::move(memory));
}

Result<std::shared_ptr<ExternalMemory>> import_dlpack_handle(OwnedHandle& handle,
                                                             const ExternalMemoryDescriptor& descriptor) {
  TENON_TRY_ASSIGN(auto memory, import_dlpack(static_cast<DLManagedTensorVersioned*>(handle.pointer()), descriptor));
  handle.reset();
  return memory;
}

}  // namespace

std::string external_memory_kind_name(ExternalMemoryKind kind) {
  const HandleKindRow* row = find_handle_kind(kind);
  return row != nullptr ? row->name : format("kind {:#x}", static_cast<uint32_t>(kind));
}

bool ExternalMemory::can_import(ExternalMemoryKind kind) {
  const HandleKindRow* row = find_handle_kind(kind);
  return row != nullptr && row->importable && (row->type != HandleType::kFd || kFdsShareMemory);
}

Result<std::shared_ptr<ExternalMemory>> ExternalMemory::import(OwnedHandle& handle,
                                                               const ExternalMemoryDescriptor& descriptor) {
  const HandleKindRow* row = find_handle_kind(descriptor.kind);
  TENON_UNSUPPORTED_IF(row == nullptr, "External memory of {} cannot be imported: the kind is unknown.",
                       external_memory_kind_name(descriptor.kind));
  TENON_UNSUPPORTED_IF(!row->importable, "External memory of kind {} cannot be imported: {}.", row->name, row->why_not);
  const std::string what = format("\"{}\" ({})", descriptor.name, row->name);
  TENON_INVALID_IF(!handle.valid(), "The handle of {} is empty.", what);
  const bool is_fd = handle.fd() >= 0;
  TENON_INVALID_IF(is_fd != (row->type == HandleType::kFd), "The handle of {} is a {}, but the kind takes a {}.", what,
                   is_fd ? "file descriptor" : "pointer", handle_type_name(row->type));
  TENON_INVALID_IF(descriptor.size_bytes == 0, "The size of {} is 0.", what);
  Result<std::shared_ptr<ExternalMemory>> memory = is_fd ? import_fd(handle, descriptor, what)
                                                   : row->type == HandleType::kPointer
                                                       ? import_host_allocation(handle, descriptor, what)
                                                       : import_dlpack_handle(handle, descriptor);
  if (memory.ok())
    TENON_TRACE(kInterop, "{} is imported: {} bytes at {}.", what, descriptor.size_bytes, (*memory)->data());
  return memory;
}

Result<Tensor> ExternalMemory::create_tensor(const std::shared_ptr<ExternalMemory>& memory, DataType type,
                                             const Shape& shape, size_t offset_bytes) {
  TENON_INVALID_IF(memory == nullptr, "A tensor cannot be made from an import that is null.");
  TENON_TRY(check_imported_tensor(type, shape, offset_bytes, memory->size_bytes(), memory->name()).status());
  TENON_TRY(memory->check());
  TENON_TRY_ASSIGN(Tensor tensor, Tensor::view(type, shape, static_cast<std::byte*>(memory->data()) + offset_bytes,
                                               memory->size_bytes() - offset_bytes, memory));
  return memory->writable() ? tensor : tensor.as_read_only();
}

}  // namespace tenon
