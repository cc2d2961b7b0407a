#include "ep/cuda/import_memory.h"

#include <algorithm>
#include <cstring>
#include <optional>

#include "base/checked.h"
#include "base/system.h"
#include "ep/cuda/program_calls.h"
#include "interop/dlpack_memory.h"
#include "interop/importer.h"

namespace tenon::cuda {

namespace {

void* pointer_to(CUdeviceptr address) { return reinterpret_cast<void*>(static_cast<uintptr_t>(address)); }

// The end of the imported range, for drivers that are told the whole object's size.
Result<size_t> range_end(size_t size_bytes, size_t offset_bytes) {
  const auto end = checked_add(offset_bytes, size_bytes);
  TENON_INVALID_IF(!end, "offset_bytes ({}) plus size_bytes ({}) overflow.", offset_bytes, size_bytes);
  return *end;
}

// Memory objects of graphics APIs: what cuImportExternalMemory takes.
class ExternalObject final : public MemoryImport {
 public:
  ExternalObject(std::shared_ptr<CudaMemory> memory, size_t size_bytes) : MemoryImport(std::move(memory), size_bytes) {}
  ~ExternalObject() override {
    if (object_ == nullptr) return;
    memory_->when_unused([buffer = buffer_, object = object_](const CudaDriver& driver) {
      if (buffer != 0) (void)driver.MemFree(buffer);
      (void)driver.DestroyExternalMemory(object);
    });
  }

  Status open(const ExternalHandle& handle, CUexternalMemoryHandleType type, size_t offset_bytes) {
    TENON_TRY_ASSIGN(const size_t end, range_end(size_bytes_, offset_bytes));
    CUDA_EXTERNAL_MEMORY_HANDLE_DESC descriptor{};
    descriptor.type = type;
    descriptor.size = end;
    // A D3D12 resource is an allocation of its own; of a Vulkan one only its maker knows.
    if (handle.dedicated || handle.kind == ExternalMemoryKind::kD3d12Resource)
      descriptor.flags = CUDA_EXTERNAL_MEMORY_DEDICATED;
    OwnedHandle copy;
    if (handle.type == HandleType::kFd) {
      TENON_TRY(check_fd_size(handle.fd, end));
      TENON_TRY_ASSIGN(copy, OwnedHandle::duplicate_fd(handle.fd));
      descriptor.handle.fd = copy.fd();
    } else {
      descriptor.handle.win32.handle = handle.pointer;
    }
    TENON_FAULT_POINT("cuImportExternalMemory");
    TENON_TRY(import_status(driver(), driver().ImportExternalMemory(&object_, &descriptor), "cuImportExternalMemory"));
    (void)copy.release_fd();  // the driver's from here
    CUDA_EXTERNAL_MEMORY_BUFFER_DESC buffer{};
    buffer.offset = offset_bytes;
    buffer.size = size_bytes_;
    TENON_FAULT_POINT("cuExternalMemoryGetMappedBuffer");
    TENON_TRY(import_status(driver(), driver().ExternalMemoryGetMappedBuffer(&buffer_, object_, &buffer),
                            "cuExternalMemoryGetMappedBuffer"));
    address_ = pointer_to(buffer_);
    return Status();
  }

 private:
  CUexternalMemory object_ = nullptr;
  CUdeviceptr buffer_ = 0;
};

// Memory of CUDA's virtual memory management, exported as an fd by this process or another.
class VmmMemory final : public MemoryImport {
 public:
  VmmMemory(std::shared_ptr<CudaMemory> memory, size_t size_bytes) : MemoryImport(std::move(memory), size_bytes) {}
  ~VmmMemory() override {
    if (!have_allocation_) return;
    memory_->when_unused(
        [allocation = allocation_, range = range_, bytes = range_bytes_, mapped = mapped_](const CudaDriver& driver) {
          if (mapped) (void)driver.MemUnmap(range, bytes);
          if (range != 0) (void)driver.MemAddressFree(range, bytes);
          (void)driver.MemRelease(allocation);
        });
  }

  Status open(const ExternalHandle& handle, size_t offset_bytes) {
    TENON_TRY_ASSIGN(const size_t end, range_end(size_bytes_, offset_bytes));
    TENON_TRY(check_fd_size(handle.fd, end));
    void* const number = reinterpret_cast<void*>(static_cast<intptr_t>(handle.fd));
    TENON_FAULT_POINT("cuMemImportFromShareableHandle");
    // The driver takes a reference of its own, and never the fd.
    TENON_TRY(import_status(
        driver(), driver().MemImportFromShareableHandle(&allocation_, number, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR),
        "cuMemImportFromShareableHandle"));
    have_allocation_ = true;
    CUmemAllocationProp properties{};
    TENON_CUDA_TRY(driver(), MemGetAllocationPropertiesFromHandle, &properties, allocation_);
    const int ordinal = memory_->device()->ordinal();
    TENON_INVALID_IF(properties.location.type == CU_MEM_LOCATION_TYPE_DEVICE && properties.location.id != ordinal,
                     "The memory lies on CUDA device {}; this importer is device {}'s.", properties.location.id,
                     ordinal);
    size_t granularity = 0;
    TENON_CUDA_TRY(driver(), MemGetAllocationGranularity, &granularity, &properties, CU_MEM_ALLOC_GRANULARITY_MINIMUM);
    const auto padded = checked_add(end, granularity - 1);
    TENON_INVALID_IF(!padded, "offset_bytes plus size_bytes ({}) is too large.", end);
    range_bytes_ = *padded / granularity * granularity;
    TENON_CUDA_TRY(driver(), MemAddressReserve, &range_, range_bytes_, 0, 0, 0);
    if (const CUresult mapped = driver().MemMap(range_, range_bytes_, 0, allocation_, 0); mapped != CUDA_SUCCESS) {
      Status failed = cuda_error(driver(), mapped, "cuMemMap");
      // A refusal here means a range that the allocation does not have; driver 580 calls it not supported.
      if (mapped == CUDA_ERROR_INVALID_VALUE || mapped == CUDA_ERROR_NOT_SUPPORTED)
        return invalid_argument("offset_bytes plus size_bytes ({}) do not fit into the allocation: {}", end,
                                failed.message());
      return failed;
    }
    mapped_ = true;
    CUmemAccessDesc access{};
    access.location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = ordinal};
    access.flags = handle.read_only ? CU_MEM_ACCESS_FLAGS_PROT_READ : CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
    TENON_CUDA_TRY(driver(), MemSetAccess, range_, range_bytes_, &access, 1);
    address_ = static_cast<std::byte*>(pointer_to(range_)) + offset_bytes;
    return Status();
  }

 private:
  CUmemGenericAllocationHandle allocation_ = 0;
  bool have_allocation_ = false;
  CUdeviceptr range_ = 0;
  size_t range_bytes_ = 0;
  bool mapped_ = false;
};

// An allocation of another process.
class IpcMemory final : public MemoryImport {
 public:
  IpcMemory(std::shared_ptr<CudaMemory> memory, size_t size_bytes) : MemoryImport(std::move(memory), size_bytes) {}
  ~IpcMemory() override {
    if (base_ == 0) return;
    memory_->when_unused([base = base_](const CudaDriver& driver) { (void)driver.IpcCloseMemHandle(base); });
  }

  Status open(const ExternalHandle& handle, size_t offset_bytes) {
    TENON_TRY_ASSIGN(const size_t end, range_end(size_bytes_, offset_bytes));
    CUipcMemHandle ipc{};
    static_assert(sizeof(ipc) == TENON_IPC_HANDLE_BYTES);
    std::memcpy(&ipc, handle.ipc.data(), sizeof(ipc));
    TENON_FAULT_POINT("cuIpcOpenMemHandle");
    TENON_TRY(import_status(driver(), driver().IpcOpenMemHandle(&base_, ipc, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS),
                            "cuIpcOpenMemHandle"));
    CUdeviceptr start = 0;
    size_t allocated_bytes = 0;
    TENON_CUDA_TRY(driver(), MemGetAddressRange, &start, &allocated_bytes, base_);
    TENON_INVALID_IF(end > allocated_bytes, "offset_bytes ({}) plus size_bytes ({}) exceed the allocation's {} bytes.",
                     offset_bytes, size_bytes_, allocated_bytes);
    address_ = static_cast<std::byte*>(pointer_to(base_)) + offset_bytes;
    return Status();
  }

 private:
  CUdeviceptr base_ = 0;
};

// Host memory that the device reads and writes where it lies: the program's, or a mapped file's.
class RegisteredMemory final : public MemoryImport {
 public:
  RegisteredMemory(std::shared_ptr<CudaMemory> memory, size_t size_bytes)
      : MemoryImport(std::move(memory), size_bytes) {}
  ~RegisteredMemory() override {
    if (pages_ == nullptr) return;
    // The last import of the pages gives them up; they stay registered until the driver may let go of them.
    const LaterProgramCalls later;
    const auto known = registrations().lock();
    if (pages_.use_count() == 1) pages_->given_up = true;
    if (!pages_->given_up) return;
    memory_->when_unused([pages = std::move(pages_), mapping = std::move(mapping_)](const CudaDriver& driver) mutable {
      if (pages->begin != 0) (void)driver.MemHostUnregister(reinterpret_cast<void*>(pages->begin));
      pages->begin = pages->end = 0;
      mapping = nullptr;
    });
  }
  Status check() const override { return mapping_ != nullptr ? mapping_->check() : Status(); }

  Status open_pointer(const ExternalHandle& handle, size_t offset_bytes) {
    TENON_TRY(range_end(size_bytes_, offset_bytes).status());
    return map(static_cast<std::byte*>(handle.pointer) + offset_bytes, handle.read_only);
  }

  Status open_fd(const ExternalHandle& handle, size_t offset_bytes) {
    TENON_TRY(check_fd_size(handle.fd, 0));
    TENON_TRY_ASSIGN(mapping_, map_memory(handle, {.kind = ExternalMemoryKind::kMappableFd,
                                                   .size_bytes = size_bytes_,
                                                   .offset_bytes = offset_bytes,
                                                   .writable = !handle.read_only,
                                                   .name = "external memory"}));
    return map(mapping_->data(), handle.read_only);
  }

 private:
  // Pages that the driver has locked for us. Imports of the same pages share one registration, because a page can be
  // registered once only.
  struct Pages {
    uintptr_t begin = 0, end = 0;  // 0: not registered by us
    bool read_only = false;
    bool given_up = false;  // nobody may share it any more: its owner may have put other memory there
  };
  // Held while pages are registered and unregistered, so that nobody finds a registration that is about to go.
  static Guarded<std::vector<std::weak_ptr<Pages>>>& registrations() {
    static Guarded<std::vector<std::weak_ptr<Pages>>> all;
    return all;
  }

  Status map(void* data, bool read_only) {
    const uintptr_t page = page_bytes();
    const auto first = reinterpret_cast<uintptr_t>(data);
    TENON_INVALID_IF(first > UINTPTR_MAX - page - size_bytes_, "{} bytes at {:#x} exceed the address space.",
                     size_bytes_, first);
    const uintptr_t begin = first / page * page;
    const uintptr_t end = (first + size_bytes_ + page - 1) / page * page;
    auto known = registrations().lock();
    std::erase_if(*known, [](const auto& pages) { return pages.expired(); });
    for (const auto& weak : *known) {
      auto pages = weak.lock();
      if (pages == nullptr || pages->begin >= end || pages->end <= begin) continue;
      TENON_UNSUPPORTED_IF(
          pages->given_up,
          "The pages at {:#x} are still registered by an import that was released while a stream waits "
          "for another API.",
          begin);
      TENON_UNSUPPORTED_IF(
          begin < pages->begin || end > pages->end || (pages->read_only && !read_only),
          "The pages from {:#x} to {:#x} overlap those from {:#x} to {:#x}, which another import has registered{}; a "
          "page can be registered once only.",
          begin, end, pages->begin, pages->end, pages->read_only ? " for reading" : "");
      pages_ = std::move(pages);
      break;
    }
    if (pages_ == nullptr) {
      auto pages = std::make_shared<Pages>();
      pages->read_only = read_only;
      unsigned flags = CU_MEMHOSTREGISTER_PORTABLE | CU_MEMHOSTREGISTER_DEVICEMAP;
      if (read_only) flags |= CU_MEMHOSTREGISTER_READ_ONLY;
      TENON_FAULT_POINT("cuMemHostRegister");
      const CUresult result = driver().MemHostRegister(reinterpret_cast<void*>(begin), end - begin, flags);
      // The program's own pinned memory is mapped already, and stays as long as the program keeps it.
      if (result == CUDA_SUCCESS) {
        pages->begin = begin;
        pages->end = end;
        known->push_back(pages);
      } else if (result == CUDA_ERROR_INVALID_VALUE) {
        return invalid_argument("{} bytes at {:#x} are not memory of this process that can be registered: {}",
                                size_bytes_, first, cuda_error(driver(), result, "cuMemHostRegister").message());
      } else if (result != CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED) {
        return cuda_error(driver(), result, "cuMemHostRegister");
      }
      pages_ = std::move(pages);
    }
    CUdeviceptr address = 0, last = 0;
    TENON_CUDA_TRY(driver(), MemHostGetDevicePointer, &address, data, 0);
    // Of the program's own pinned memory nobody knows the end.
    const CUresult found = driver().MemHostGetDevicePointer(&last, static_cast<std::byte*>(data) + size_bytes_ - 1, 0);
    TENON_INVALID_IF(found != CUDA_SUCCESS || last - address != size_bytes_ - 1,
                     "Of the {} bytes at {:#x} only a part is page-locked, by the program itself.", size_bytes_, first);
    address_ = pointer_to(address);
    host_accessible_ = address_ == data;
    return Status();
  }

  std::shared_ptr<ExternalMemory> mapping_;  // outlives the registration of its pages
  std::shared_ptr<Pages> pages_;
};

// A tensor of another library in this process, torch's for example, where it lies on the device.
class DlpackImport final : public MemoryImport {
 public:
  DlpackImport(std::shared_ptr<CudaMemory> memory, size_t size_bytes) : MemoryImport(std::move(memory), size_bytes) {}
  ~DlpackImport() override {
    // The producer may hand the memory out again: not before every stream has passed what is queued here.
    if (owner_ != nullptr)
      memory_->when_unused([owner = std::move(owner_)](const CudaDriver&) mutable {
        call_program([owner = std::move(owner)]() mutable { owner.reset(); });
      });
  }

  Status open(const ExternalHandle& handle, size_t offset_bytes) {
    TENON_TRY_ASSIGN(DlpackBytes bytes,
                     map_cuda_dlpack(handle, memory_->device()->ordinal(), size_bytes_, offset_bytes));
    address_ = bytes.data;
    owner_ = std::move(bytes.owner);
    return Status();
  }

 private:
  std::shared_ptr<const void> owner_;
};

// How the driver imports a kind, and the attributes that say whether a device does. A kind without a row is not
// imported.
struct CudaMemoryKind {
  ExternalMemoryKind kind;
  Result<std::shared_ptr<MemoryImport>> (*open)(const std::shared_ptr<CudaMemory>& memory, const ExternalHandle& handle,
                                                size_t size_bytes, size_t offset_bytes);
  std::optional<CUdevice_attribute> needs[2] = {};
};

template <typename Import, auto open, auto... arguments>
Result<std::shared_ptr<MemoryImport>> open_as(const std::shared_ptr<CudaMemory>& memory, const ExternalHandle& handle,
                                              size_t size_bytes, size_t offset_bytes) {
  auto import = std::make_shared<Import>(memory, size_bytes);
  TENON_TRY(((*import).*open)(handle, arguments..., offset_bytes));
  return std::shared_ptr<MemoryImport>(std::move(import));
}
template <CUexternalMemoryHandleType type>
constexpr auto* open_object = &open_as<ExternalObject, &ExternalObject::open, type>;

constexpr CudaMemoryKind kCudaMemoryKinds[] = {
    {ExternalMemoryKind::kVulkanOpaqueFd, open_object<CU_EXTERNAL_MEMORY_HANDLE_TYPE_OPAQUE_FD>},
    {ExternalMemoryKind::kVulkanOpaqueWin32, open_object<CU_EXTERNAL_MEMORY_HANDLE_TYPE_OPAQUE_WIN32>},
    {ExternalMemoryKind::kD3d12Resource, open_object<CU_EXTERNAL_MEMORY_HANDLE_TYPE_D3D12_RESOURCE>},
    {ExternalMemoryKind::kD3d12Heap, open_object<CU_EXTERNAL_MEMORY_HANDLE_TYPE_D3D12_HEAP>},
    // Drivers of discrete GPUs export dma-bufs, but take none.
    {ExternalMemoryKind::kDmaBufFd,
     open_object<CU_EXTERNAL_MEMORY_HANDLE_TYPE_DMABUF_FD>,
     {CU_DEVICE_ATTRIBUTE_INTEGRATED, CU_DEVICE_ATTRIBUTE_DMA_BUF_SUPPORTED}},
    {ExternalMemoryKind::kCudaVmmFd,
     &open_as<VmmMemory, &VmmMemory::open>,
     {CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED}},
    {ExternalMemoryKind::kCudaIpc, &open_as<IpcMemory, &IpcMemory::open>, {CU_DEVICE_ATTRIBUTE_IPC_EVENT_SUPPORTED}},
    {ExternalMemoryKind::kHostAllocation,
     &open_as<RegisteredMemory, &RegisteredMemory::open_pointer>,
     {CU_DEVICE_ATTRIBUTE_HOST_REGISTER_SUPPORTED}},
    {ExternalMemoryKind::kMappableFd,
     &open_as<RegisteredMemory, &RegisteredMemory::open_fd>,
     {CU_DEVICE_ATTRIBUTE_HOST_REGISTER_SUPPORTED}},
    {ExternalMemoryKind::kDlpack, &open_as<DlpackImport, &DlpackImport::open>},  // tensors of this device
};

const CudaMemoryKind* find_row(ExternalMemoryKind kind) {
  const auto* const found = std::find_if(std::begin(kCudaMemoryKinds), std::end(kCudaMemoryKinds),
                                         [&](const CudaMemoryKind& row) { return row.kind == kind; });
  return found != std::end(kCudaMemoryKinds) ? found : nullptr;
}

}  // namespace

bool system_has(HandleSystem system, HandleType type) {
  switch (type) {
    case HandleType::kFd:
    case HandleType::kIpc:
      return system == HandleSystem::kPosix;
    case HandleType::kNtHandle:
      return system == HandleSystem::kWindows;
    case HandleType::kPointer:
    case HandleType::kDlpack:
    case HandleType::kCallbacks:
      return true;
  }
  return false;
}

bool can_import(const CudaDevice& device, ExternalMemoryKind kind, HandleSystem system) {
  const CudaMemoryKind* row = find_row(kind);
  return row != nullptr && system_has(system, find_handle_kind(kind)->type) &&
         std::all_of(std::begin(row->needs), std::end(row->needs),
                     [&](const auto& attribute) { return !attribute || device.attribute(*attribute) != 0; });
}

Result<std::shared_ptr<MemoryImport>> MemoryImport::import(const std::shared_ptr<CudaMemory>& memory,
                                                           const DeviceUuid& uuid, const ExternalHandle& handle,
                                                           size_t size_bytes, size_t offset_bytes) {
  memory->collect();
  TENON_INVALID_IF(size_bytes == 0, "size_bytes is 0.");
  TENON_INVALID_IF(handle.device_uuid && *handle.device_uuid != uuid,
                   "The memory is of device {}; this importer is of device {}.", uuid_text(*handle.device_uuid),
                   uuid_text(uuid));
  const CudaMemoryKind* row = find_row(handle.kind);
  TENON_UNSUPPORTED_IF(row == nullptr, "This device imports no {}.", external_memory_kind_name(handle.kind));
  TENON_TRY_ASSIGN(const ContextScope scope, ContextScope::enter(*memory->device()));
  auto import = row->open(memory, handle, size_bytes, offset_bytes);
  if (!import.ok())
    return std::move(import).status().with_context(
        format("while importing {} bytes of {}", size_bytes, external_memory_kind_name(handle.kind)));
  return import;
}

}  // namespace tenon::cuda
