// What other APIs and processes share with the fake driver: memory objects, timelines, VMM and IPC handles.
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cstring>

#include "ep/cuda/fake/fake_state.h"

namespace tenon::cuda::fake {

namespace {

constexpr size_t kGranularity = 4096;

struct Object {
  int fd = -1;  // the driver's own
  ino_t inode = 0;
  size_t size_bytes = 0;
  std::set<uintptr_t> buffers;
};
struct Semaphore {
  std::shared_ptr<Timeline> timeline;
  int fd = -1;
  ino_t inode = 0;
  std::atomic<int> pending{0};
};
struct Allocation {
  int fd = -1;
  size_t size_bytes = 0;
};
struct NtObject {
  int fd = -1;
  size_t size_bytes = 0;
  std::byte* view = nullptr;
  std::shared_ptr<Timeline> timeline;
};

// With the state's lock held.
struct Shared {
  std::map<Object*, std::unique_ptr<Object>> objects;
  std::map<Semaphore*, std::shared_ptr<Semaphore>> semaphores;
  std::map<uint64_t, Allocation> allocations;
  uint64_t next_allocation = 1;
  std::map<uintptr_t, std::pair<size_t, bool>> reserved;  // size, mapped
  std::map<void*, std::unique_ptr<NtObject>> nt;
  std::map<uint64_t, int> ipc;  // fds
  std::set<std::pair<int, ino_t>> held_fds;
};
Shared& shared() {
  static Shared* const all = new Shared;
  return *all;
}

ino_t inode_of(int fd) {
  struct stat about;
  return ::fstat(fd, &about) == 0 ? about.st_ino : 0;
}

size_t size_of(int fd) {
  struct stat about;
  return ::fstat(fd, &about) == 0 && S_ISREG(about.st_mode) ? static_cast<size_t>(about.st_size) : 0;
}

// The driver owns an fd from a successful import on. Whoever closes it, or hands it over twice, is found out.
bool hold_fd(int fd) {
  const bool fresh = shared().held_fds.insert({fd, inode_of(fd)}).second;
  return fresh;
}

bool let_go_of_fd(int fd, ino_t inode) {
  shared().held_fds.erase({fd, inode});
  if (inode_of(fd) != inode) return false;
  (void)::close(fd);
  return true;
}

NtObject* find_nt(void* handle) {
  const auto found = shared().nt.find(handle);
  return found != shared().nt.end() ? found->second.get() : nullptr;
}

CUresult CUDAAPI import_memory(CUexternalMemory* out, const CUDA_EXTERNAL_MEMORY_HANDLE_DESC* descriptor) {
  TENON_FAKE_CONTEXT("cuImportExternalMemory");
  auto object = std::make_unique<Object>();
  object->size_bytes = descriptor->size;
  bool twice = false;
  {
    const std::lock_guard lock(state().mutex);
    switch (descriptor->type) {
      case CU_EXTERNAL_MEMORY_HANDLE_TYPE_OPAQUE_FD:
      case CU_EXTERNAL_MEMORY_HANDLE_TYPE_DMABUF_FD: {
        const int fd = descriptor->handle.fd;
        if (descriptor->size == 0 || size_of(fd) < descriptor->size) return CUDA_ERROR_INVALID_VALUE;
        object->fd = fd;
        object->inode = inode_of(fd);
        twice = !hold_fd(fd);
        break;
      }
      case CU_EXTERNAL_MEMORY_HANDLE_TYPE_D3D12_RESOURCE:
      case CU_EXTERNAL_MEMORY_HANDLE_TYPE_D3D12_HEAP:
      case CU_EXTERNAL_MEMORY_HANDLE_TYPE_OPAQUE_WIN32: {
        const NtObject* nt = find_nt(descriptor->handle.win32.handle);
        if (nt == nullptr || nt->fd < 0 || nt->size_bytes < descriptor->size) return CUDA_ERROR_INVALID_VALUE;
        const bool dedicated = (descriptor->flags & CUDA_EXTERNAL_MEMORY_DEDICATED) != 0;
        // A resource is an allocation of its own, a heap is not.
        if (descriptor->type == CU_EXTERNAL_MEMORY_HANDLE_TYPE_D3D12_RESOURCE && !dedicated)
          return CUDA_ERROR_INVALID_VALUE;
        if (descriptor->type == CU_EXTERNAL_MEMORY_HANDLE_TYPE_D3D12_HEAP && dedicated) return CUDA_ERROR_INVALID_VALUE;
        object->fd = ::fcntl(nt->fd, F_DUPFD_CLOEXEC, 0);
        object->inode = inode_of(object->fd);
        break;
      }
      default:
        return CUDA_ERROR_NOT_SUPPORTED;
    }
    *out = reinterpret_cast<CUexternalMemory>(object.get());
    Object* const key = object.get();
    shared().objects[key] = std::move(object);
  }
  if (twice) violation(format("fd {} is imported again, but it is the driver's already.", descriptor->handle.fd));
  return CUDA_SUCCESS;
}

CUresult CUDAAPI map_buffer(CUdeviceptr* out, CUexternalMemory memory,
                            const CUDA_EXTERNAL_MEMORY_BUFFER_DESC* descriptor) {
  TENON_FAKE_CONTEXT("cuExternalMemoryGetMappedBuffer");
  const std::lock_guard lock(state().mutex);
  const auto found = shared().objects.find(reinterpret_cast<Object*>(memory));
  if (found == shared().objects.end()) return CUDA_ERROR_INVALID_HANDLE;
  Object& object = *found->second;
  if (descriptor->size == 0 || descriptor->offset + descriptor->size > object.size_bytes)
    return CUDA_ERROR_INVALID_VALUE;
  void* mapped = ::mmap(nullptr, object.size_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, object.fd, 0);
  if (mapped == MAP_FAILED) return CUDA_ERROR_OPERATING_SYSTEM;
  // The region begins where the buffer does; what lies before it in the object is mapped, and nobody's.
  const uintptr_t address = reinterpret_cast<uintptr_t>(mapped) + descriptor->offset;
  state().regions[address] = {
      .kind = Region::Kind::kExternal, .size_bytes = descriptor->size, .owner = reinterpret_cast<void*>(memory)};
  object.buffers.insert(address);
  *out = address;
  return CUDA_SUCCESS;
}

// cuMemFree: of plain allocations, and of buffers that were mapped.
CUresult CUDAAPI mem_free(CUdeviceptr address) {
  TENON_FAKE_CONTEXT("cuMemFree");
  expect_no_foreign_waits("cuMemFree");
  {
    const std::lock_guard lock(state().mutex);
    const auto found = state().regions.find(address);
    if (found != state().regions.end() && found->second.kind == Region::Kind::kExternal) {
      const auto object = shared().objects.find(static_cast<Object*>(found->second.owner));
      if (object != shared().objects.end()) object->second->buffers.erase(address);
      const uintptr_t page = address / kGranularity * kGranularity;
      (void)::munmap(reinterpret_cast<void*>(page), found->second.size_bytes + (address - page));
      state().regions.erase(found);
      return CUDA_SUCCESS;
    }
    if (found != state().regions.end() && found->second.kind == Region::Kind::kDevice) {
      remove_memory(address);
      return CUDA_SUCCESS;
    }
  }
  violation(format("cuMemFree gets {:#x}, which is no live allocation.", address));
  return CUDA_ERROR_INVALID_VALUE;
}

CUresult CUDAAPI destroy_memory(CUexternalMemory memory) {
  TENON_FAKE_CONTEXT("cuDestroyExternalMemory");
  std::string wrong;
  {
    const std::lock_guard lock(state().mutex);
    const auto found = shared().objects.find(reinterpret_cast<Object*>(memory));
    if (found == shared().objects.end()) return CUDA_ERROR_INVALID_HANDLE;
    if (!found->second->buffers.empty()) wrong = "A memory object is destroyed while a buffer of it is mapped.";
    if (!let_go_of_fd(found->second->fd, found->second->inode))
      wrong = format("fd {} was the driver's, and somebody closed it.", found->second->fd);
    shared().objects.erase(found);
  }
  if (!wrong.empty()) violation(wrong);
  return CUDA_SUCCESS;
}

CUresult CUDAAPI import_semaphore(CUexternalSemaphore* out, const CUDA_EXTERNAL_SEMAPHORE_HANDLE_DESC* descriptor) {
  TENON_FAKE_CONTEXT("cuImportExternalSemaphore");
  auto semaphore = std::make_shared<Semaphore>();
  bool twice = false;
  if (descriptor->type == CU_EXTERNAL_SEMAPHORE_HANDLE_TYPE_TIMELINE_SEMAPHORE_FD) {
    auto opened = SharedTimeline::open("fake", descriptor->handle.fd);
    if (!opened.ok()) return CUDA_ERROR_INVALID_VALUE;
    semaphore->timeline = std::move(*opened);
    semaphore->fd = descriptor->handle.fd;
    semaphore->inode = inode_of(semaphore->fd);
    const std::lock_guard lock(state().mutex);
    twice = !hold_fd(semaphore->fd);
  } else {
    const std::lock_guard lock(state().mutex);
    const NtObject* nt = find_nt(descriptor->handle.win32.handle);
    if (nt == nullptr || nt->timeline == nullptr) return CUDA_ERROR_INVALID_VALUE;
    semaphore->timeline = nt->timeline;
  }
  {
    const std::lock_guard lock(state().mutex);
    *out = reinterpret_cast<CUexternalSemaphore>(semaphore.get());
    Semaphore* const key = semaphore.get();
    shared().semaphores[key] = std::move(semaphore);
  }
  if (twice) violation(format("fd {} is imported again, but it is the driver's already.", descriptor->handle.fd));
  return CUDA_SUCCESS;
}

std::shared_ptr<Semaphore> find_semaphore(CUexternalSemaphore semaphore) {
  {
    const std::lock_guard lock(state().mutex);
    const auto found = shared().semaphores.find(reinterpret_cast<Semaphore*>(semaphore));
    if (found != shared().semaphores.end()) return found->second;
  }
  violation("Something is used as a semaphore that is none.");
  return nullptr;
}

CUresult CUDAAPI wait_semaphores(const CUexternalSemaphore* semaphores,
                                 const CUDA_EXTERNAL_SEMAPHORE_WAIT_PARAMS* parameters, unsigned count,
                                 CUstream stream) {
  TENON_FAKE_CONTEXT("cuWaitExternalSemaphoresAsync");
  const auto queue = find_stream(stream);
  if (queue == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  for (unsigned i = 0; i < count; ++i) {
    const auto semaphore = find_semaphore(semaphores[i]);
    if (semaphore == nullptr) return CUDA_ERROR_INVALID_HANDLE;
    ++semaphore->pending;
    {
      const std::lock_guard lock(state().mutex);
      ++state().foreign_waits;
    }
    queue->queue(
        [semaphore, value = parameters[i].params.fence.value] {
          const Status done = semaphore->timeline->wait(value, kWaitForever);
          --semaphore->pending;
          const std::lock_guard lock(state().mutex);
          --state().foreign_waits;
          return done.ok() ? CUDA_SUCCESS : CUDA_ERROR_EXTERNAL_DEVICE;
        },
        true);
  }
  return CUDA_SUCCESS;
}

CUresult CUDAAPI signal_semaphores(const CUexternalSemaphore* semaphores,
                                   const CUDA_EXTERNAL_SEMAPHORE_SIGNAL_PARAMS* parameters, unsigned count,
                                   CUstream stream) {
  TENON_FAKE_CONTEXT("cuSignalExternalSemaphoresAsync");
  const auto queue = find_stream(stream);
  if (queue == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  for (unsigned i = 0; i < count; ++i) {
    const auto semaphore = find_semaphore(semaphores[i]);
    if (semaphore == nullptr) return CUDA_ERROR_INVALID_HANDLE;
    ++semaphore->pending;
    queue->queue(
        [semaphore, value = parameters[i].params.fence.value] {
          const Status done = semaphore->timeline->signal(value);
          --semaphore->pending;
          return done.ok() ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
        },
        true);
  }
  return CUDA_SUCCESS;
}

CUresult CUDAAPI destroy_semaphore(CUexternalSemaphore handle) {
  TENON_FAKE_CONTEXT("cuDestroyExternalSemaphore");
  expect_no_foreign_waits("cuDestroyExternalSemaphore");
  const auto semaphore = find_semaphore(handle);
  if (semaphore == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  std::string wrong;
  if (semaphore->pending != 0) wrong = "A semaphore is destroyed while a wait or signal of it is queued.";
  {
    const std::lock_guard lock(state().mutex);
    if (semaphore->fd >= 0 && !let_go_of_fd(semaphore->fd, semaphore->inode))
      wrong = format("fd {} was the driver's, and somebody closed it.", semaphore->fd);
    shared().semaphores.erase(semaphore.get());
  }
  if (!wrong.empty()) violation(wrong);
  return CUDA_SUCCESS;
}

CUresult CUDAAPI vmm_import(CUmemGenericAllocationHandle* out, void* handle, CUmemAllocationHandleType type) {
  TENON_FAKE_CONTEXT("cuMemImportFromShareableHandle");
  if (type != CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR) return CUDA_ERROR_NOT_SUPPORTED;
  const int fd = static_cast<int>(reinterpret_cast<intptr_t>(handle));
  const size_t size_bytes = size_of(fd);
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
  if (offset != 0 || size_bytes % kGranularity != 0 || size_bytes > range->second.first ||
      size_bytes > allocation->second.size_bytes)
    return CUDA_ERROR_INVALID_VALUE;
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
  (void)::mmap(reinterpret_cast<void*>(address), size_bytes, PROT_NONE,
               MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
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

CUresult CUDAAPI ipc_open(CUdeviceptr* out, CUipcMemHandle handle, unsigned) {
  TENON_FAKE_CONTEXT("cuIpcOpenMemHandle");
  uint64_t number = 0;
  std::memcpy(&number, handle.reserved, sizeof(number));
  const std::lock_guard lock(state().mutex);
  const auto found = shared().ipc.find(number);
  if (found == shared().ipc.end()) return CUDA_ERROR_INVALID_VALUE;
  const size_t size_bytes = size_of(found->second);
  void* mapped = ::mmap(nullptr, size_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, found->second, 0);
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

int make_memfd(size_t size_bytes) {
  const int fd = ::memfd_create("fake-cuda", MFD_CLOEXEC);
  if (fd >= 0 && ::ftruncate(fd, static_cast<off_t>(size_bytes)) != 0) return ::close(fd), -1;
  return fd;
}

}  // namespace

void add_external_functions(Table& table) {
  add_function(table, "cuMemFree", &mem_free);
  add_function(table, "cuImportExternalMemory", &import_memory);
  add_function(table, "cuExternalMemoryGetMappedBuffer", &map_buffer);
  add_function(table, "cuDestroyExternalMemory", &destroy_memory);
  add_function(table, "cuImportExternalSemaphore", &import_semaphore);
  add_function(table, "cuWaitExternalSemaphoresAsync", &wait_semaphores);
  add_function(table, "cuSignalExternalSemaphoresAsync", &signal_semaphores);
  add_function(table, "cuDestroyExternalSemaphore", &destroy_semaphore);
  add_function(table, "cuMemImportFromShareableHandle", &vmm_import);
  add_function(table, "cuMemGetAllocationPropertiesFromHandle", &vmm_properties);
  add_function(table, "cuMemGetAllocationGranularity", &vmm_granularity);
  add_function(table, "cuMemAddressReserve", &vmm_reserve);
  add_function(table, "cuMemMap", &vmm_map);
  add_function(table, "cuMemSetAccess", &vmm_set_access);
  add_function(table, "cuMemUnmap", &vmm_unmap);
  add_function(table, "cuMemAddressFree", &vmm_address_free);
  add_function(table, "cuMemRelease", &vmm_release);
  add_function(table, "cuIpcOpenMemHandle", &ipc_open);
  add_function(table, "cuIpcCloseMemHandle", &ipc_close);
}

void* make_nt_memory(size_t size_bytes) {
  auto object = std::make_unique<NtObject>();
  object->fd = make_memfd(size_bytes);
  object->size_bytes = size_bytes;
  object->view =
      static_cast<std::byte*>(::mmap(nullptr, size_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, object->fd, 0));
  const std::lock_guard lock(state().mutex);
  void* const handle = object.get();
  shared().nt[handle] = std::move(object);
  return handle;
}

std::byte* nt_view(void* handle) {
  const std::lock_guard lock(state().mutex);
  const NtObject* object = find_nt(handle);
  return object != nullptr ? object->view : nullptr;
}

void* make_nt_fence(std::shared_ptr<Timeline> timeline) {
  auto object = std::make_unique<NtObject>();
  object->timeline = std::move(timeline);
  const std::lock_guard lock(state().mutex);
  void* const handle = object.get();
  shared().nt[handle] = std::move(object);
  return handle;
}

CUipcMemHandle make_ipc_memory(size_t size_bytes) {
  CUipcMemHandle handle{};
  const std::lock_guard lock(state().mutex);
  const uint64_t number = 1000 + shared().ipc.size();
  shared().ipc[number] = make_memfd(size_bytes);
  std::memcpy(handle.reserved, &number, sizeof(number));
  return handle;
}

}  // namespace tenon::cuda::fake
