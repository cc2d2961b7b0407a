// CUDA's virtual memory by file descriptors, and allocations of other processes by IPC handles.
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstring>
#include <set>

#include "ep/cuda/fake/fake_system.h"

namespace tenon::cuda::fake {

namespace {

constexpr size_t kGranularity = 4096;

struct Allocation {
  int fd = -1;
  size_t size_bytes = 0;
};

// The content of an IPC handle: an fd and the process that owns it.
struct IpcName {
  int32_t process = 0;  // kNobody: a stand-in for another process, whose fds are here
  int32_t fd = -1;
};
constexpr int32_t kNobody = -1;

// With the state's lock held.
struct Shared {
  std::map<uint64_t, Allocation> allocations;
  uint64_t next_allocation = 1;
  std::map<uintptr_t, std::pair<size_t, bool>> reserved;  // size, mapped
  std::set<int32_t> ipc;                                  // fds of kNobody
};
Shared& shared() {
  static Shared* const all = new Shared;
  return *all;
}

CUresult CUDAAPI vmm_create(CUmemGenericAllocationHandle* out, size_t size_bytes, const CUmemAllocationProp* properties,
                            unsigned long long flags) {
  TENON_FAKE_CONTEXT("cuMemCreate");
  if (size_bytes == 0 || size_bytes % kGranularity != 0 || flags != 0 ||
      properties->requestedHandleTypes != CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR)
    return CUDA_ERROR_INVALID_VALUE;
  const auto fd = static_cast<int>(make_object(size_bytes));
  if (fd < 0) return CUDA_ERROR_OUT_OF_MEMORY;
  const std::lock_guard lock(state().mutex);
  *out = shared().next_allocation++;
  shared().allocations[*out] = {fd, size_bytes};
  return CUDA_SUCCESS;
}

CUresult CUDAAPI vmm_export(void* out, CUmemGenericAllocationHandle handle, CUmemAllocationHandleType type,
                            unsigned long long) {
  TENON_FAKE_CONTEXT("cuMemExportToShareableHandle");
  const std::lock_guard lock(state().mutex);
  const auto allocation = shared().allocations.find(handle);
  if (allocation == shared().allocations.end() || type != CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR)
    return CUDA_ERROR_INVALID_VALUE;
  const int fd = ::fcntl(allocation->second.fd, F_DUPFD_CLOEXEC, 0);
  std::memcpy(out, &fd, sizeof(fd));
  return fd >= 0 ? CUDA_SUCCESS : CUDA_ERROR_OPERATING_SYSTEM;
}

CUresult CUDAAPI vmm_import(CUmemGenericAllocationHandle* out, void* handle, CUmemAllocationHandleType type) {
  TENON_FAKE_CONTEXT("cuMemImportFromShareableHandle");
  if (type != CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR) return CUDA_ERROR_NOT_SUPPORTED;
  const int fd = static_cast<int>(reinterpret_cast<intptr_t>(handle));
  const size_t size_bytes = object_size(fd);
  if (size_bytes == 0) return CUDA_ERROR_INVALID_VALUE;
  const std::lock_guard lock(state().mutex);
  // The caller keeps the fd and closes it.
  *out = shared().next_allocation++;
  shared().allocations[*out] = {::fcntl(fd, F_DUPFD_CLOEXEC, 0), size_bytes};
  return CUDA_SUCCESS;
}

CUresult CUDAAPI vmm_properties(CUmemAllocationProp* properties, CUmemGenericAllocationHandle handle) {
  TENON_FAKE_CONTEXT("cuMemGetAllocationPropertiesFromHandle");
  const std::lock_guard lock(state().mutex);
  if (!shared().allocations.contains(handle)) return CUDA_ERROR_INVALID_VALUE;
  *properties = {};
  properties->type = CU_MEM_ALLOCATION_TYPE_PINNED;
  properties->location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = 0};
  return CUDA_SUCCESS;
}

CUresult CUDAAPI vmm_granularity(size_t* granularity, const CUmemAllocationProp*, CUmemAllocationGranularity_flags) {
  TENON_FAKE_CONTEXT("cuMemGetAllocationGranularity");
  *granularity = kGranularity;
  return CUDA_SUCCESS;
}

CUresult CUDAAPI vmm_reserve(CUdeviceptr* out, size_t size_bytes, size_t, CUdeviceptr, unsigned long long) {
  TENON_FAKE_CONTEXT("cuMemAddressReserve");
  if (size_bytes == 0 || size_bytes % kGranularity != 0) return CUDA_ERROR_INVALID_VALUE;
  void* range = ::mmap(nullptr, size_bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (range == MAP_FAILED) return CUDA_ERROR_OUT_OF_MEMORY;
  const std::lock_guard lock(state().mutex);
  *out = reinterpret_cast<uintptr_t>(range);
  shared().reserved[*out] = {size_bytes, false};
  return CUDA_SUCCESS;
}

CUresult CUDAAPI vmm_map(CUdeviceptr address, size_t size_bytes, size_t offset, CUmemGenericAllocationHandle handle,
                         unsigned long long) {
  TENON_FAKE_CONTEXT("cuMemMap");
  const std::lock_guard lock(state().mutex);
  const auto range = shared().reserved.find(address);
  const auto allocation = shared().allocations.find(handle);
  if (range == shared().reserved.end() || allocation == shared().allocations.end()) return CUDA_ERROR_INVALID_VALUE;
  if (offset != 0 || size_bytes % kGranularity != 0 || size_bytes > range->second.first)
    return CUDA_ERROR_INVALID_VALUE;
  if (size_bytes > allocation->second.size_bytes) return CUDA_ERROR_NOT_SUPPORTED;  // as driver 580 answers
  if (::mmap(reinterpret_cast<void*>(address), size_bytes, PROT_NONE, MAP_SHARED | MAP_FIXED, allocation->second.fd,
             0) == MAP_FAILED)
    return CUDA_ERROR_OPERATING_SYSTEM;
  range->second.second = true;
  state().regions[address] = {.kind = Region::Kind::kMapped, .size_bytes = size_bytes};
  return CUDA_SUCCESS;
}

CUresult CUDAAPI vmm_set_access(CUdeviceptr address, size_t size_bytes, const CUmemAccessDesc* access, size_t) {
  TENON_FAKE_CONTEXT("cuMemSetAccess");
  const int protection =
      access->flags == CU_MEM_ACCESS_FLAGS_PROT_READWRITE ? PROT_READ | PROT_WRITE : static_cast<int>(PROT_READ);
  return ::mprotect(reinterpret_cast<void*>(address), size_bytes, protection) == 0 ? CUDA_SUCCESS
                                                                                   : CUDA_ERROR_INVALID_VALUE;
}

CUresult CUDAAPI vmm_unmap(CUdeviceptr address, size_t size_bytes) {
  TENON_FAKE_CONTEXT("cuMemUnmap");
  const std::lock_guard lock(state().mutex);
  const auto range = shared().reserved.find(address);
  if (range == shared().reserved.end() || !range->second.second) return CUDA_ERROR_INVALID_VALUE;
  if (::mmap(reinterpret_cast<void*>(address), size_bytes, PROT_NONE,
             MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0) == MAP_FAILED)
    return CUDA_ERROR_OUT_OF_MEMORY;
  range->second.second = false;
  state().regions.erase(address);
  return CUDA_SUCCESS;
}

CUresult CUDAAPI vmm_address_free(CUdeviceptr address, size_t size_bytes) {
  TENON_FAKE_CONTEXT("cuMemAddressFree");
  bool mapped = false;
  {
    const std::lock_guard lock(state().mutex);
    const auto range = shared().reserved.find(address);
    if (range == shared().reserved.end() || range->second.first != size_bytes) return CUDA_ERROR_INVALID_VALUE;
    mapped = range->second.second;
    (void)::munmap(reinterpret_cast<void*>(address), size_bytes);
    shared().reserved.erase(range);
  }
  if (mapped) violation("An address range is freed while memory is mapped there.");
  return CUDA_SUCCESS;
}

CUresult CUDAAPI vmm_release(CUmemGenericAllocationHandle handle) {
  TENON_FAKE_CONTEXT("cuMemRelease");
  const std::lock_guard lock(state().mutex);
  const auto allocation = shared().allocations.find(handle);
  if (allocation == shared().allocations.end()) return CUDA_ERROR_INVALID_VALUE;
  (void)::close(allocation->second.fd);
  shared().allocations.erase(allocation);
  return CUDA_SUCCESS;
}

// The allocation becomes a mapping of an fd, where it lies.
CUresult CUDAAPI ipc_export(CUipcMemHandle* out, CUdeviceptr address) {
  TENON_FAKE_CONTEXT("cuIpcGetMemHandle");
  const std::lock_guard lock(state().mutex);
  const auto region = state().regions.find(address);
  if (region == state().regions.end() || region->second.kind != Region::Kind::kDevice) return CUDA_ERROR_INVALID_VALUE;
  const size_t size_bytes = region->second.size_bytes;
  const IpcName name{.process = ::getpid(), .fd = static_cast<int32_t>(make_object(size_bytes))};
  void* const memory = reinterpret_cast<void*>(static_cast<uintptr_t>(address));
  if (name.fd < 0 || ::pwrite(name.fd, memory, size_bytes, 0) != static_cast<ssize_t>(size_bytes) ||
      ::mmap(memory, size_bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, name.fd, 0) == MAP_FAILED)
    return CUDA_ERROR_OPERATING_SYSTEM;
  *out = {};
  std::memcpy(out->reserved, &name, sizeof(name));
  return CUDA_SUCCESS;
}

CUresult CUDAAPI ipc_open(CUdeviceptr* out, CUipcMemHandle handle, unsigned) {
  TENON_FAKE_CONTEXT("cuIpcOpenMemHandle");
  IpcName name;
  std::memcpy(&name, handle.reserved, sizeof(name));
  // The driver opens no handle in the process that made it.
  if (name.process == ::getpid()) return CUDA_ERROR_INVALID_CONTEXT;
  const std::lock_guard lock(state().mutex);
  const bool here = name.process == kNobody && shared().ipc.contains(name.fd);
  const int fd = here ? ::fcntl(name.fd, F_DUPFD_CLOEXEC, 0)
                      : ::open(format("/proc/{}/fd/{}", name.process, name.fd).c_str(), O_RDWR | O_CLOEXEC);
  if (fd < 0) return CUDA_ERROR_INVALID_VALUE;
  const size_t size_bytes = object_size(fd);
  void* mapped = ::mmap(nullptr, size_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  (void)::close(fd);
  if (mapped == MAP_FAILED) return CUDA_ERROR_OPERATING_SYSTEM;
  *out = reinterpret_cast<uintptr_t>(mapped);
  state().regions[*out] = {.kind = Region::Kind::kIpc, .size_bytes = size_bytes};
  return CUDA_SUCCESS;
}

CUresult CUDAAPI ipc_close(CUdeviceptr address) {
  TENON_FAKE_CONTEXT("cuIpcCloseMemHandle");
  const std::lock_guard lock(state().mutex);
  const auto found = state().regions.find(address);
  if (found == state().regions.end() || found->second.kind != Region::Kind::kIpc) return CUDA_ERROR_INVALID_VALUE;
  (void)::munmap(reinterpret_cast<void*>(address), found->second.size_bytes);
  state().regions.erase(found);
  return CUDA_SUCCESS;
}

}  // namespace

void add_system_functions(Table& table) {
  add_function(table, "cuMemCreate", &vmm_create);
  add_function(table, "cuMemExportToShareableHandle", &vmm_export);
  add_function(table, "cuMemImportFromShareableHandle", &vmm_import);
  add_function(table, "cuMemGetAllocationPropertiesFromHandle", &vmm_properties);
  add_function(table, "cuMemGetAllocationGranularity", &vmm_granularity);
  add_function(table, "cuMemAddressReserve", &vmm_reserve);
  add_function(table, "cuMemMap", &vmm_map);
  add_function(table, "cuMemSetAccess", &vmm_set_access);
  add_function(table, "cuMemUnmap", &vmm_unmap);
  add_function(table, "cuMemAddressFree", &vmm_address_free);
  add_function(table, "cuMemRelease", &vmm_release);
  add_function(table, "cuIpcGetMemHandle", &ipc_export);
  add_function(table, "cuIpcOpenMemHandle", &ipc_open);
  add_function(table, "cuIpcCloseMemHandle", &ipc_close);
}

CUipcMemHandle make_ipc_memory(size_t size_bytes) {
  CUipcMemHandle handle{};
  const std::lock_guard lock(state().mutex);
  const IpcName name{.process = kNobody, .fd = static_cast<int32_t>(make_object(size_bytes))};
  shared().ipc.insert(name.fd);
  std::memcpy(handle.reserved, &name, sizeof(name));
  return handle;
}

}  // namespace tenon::cuda::fake
