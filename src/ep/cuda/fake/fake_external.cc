// Memory objects and timelines of other APIs, for the fake driver.
#include <atomic>
#include <cstring>

#include "ep/cuda/fake/fake_system.h"

namespace tenon::cuda::fake {

namespace {

struct Object {
  MemoryObject memory = -1;  // the driver's own
  uint64_t identity = 0;
  size_t size_bytes = 0;
  std::map<uintptr_t, void*> buffers;  // where the mapping of each begins
};
struct Semaphore {
  std::shared_ptr<Timeline> timeline;
  int fd = -1;
  uint64_t identity = 0;
  std::atomic<int> pending{0};
};
struct NtObject {
  MemoryObject memory = -1;
  size_t size_bytes = 0;
  std::byte* view = nullptr;
  std::shared_ptr<Timeline> timeline;
};

// With the state's lock held.
struct Shared {
  std::map<Object*, std::unique_ptr<Object>> objects;
  std::map<Semaphore*, std::shared_ptr<Semaphore>> semaphores;
  std::map<void*, std::unique_ptr<NtObject>> nt;
  std::set<std::pair<MemoryObject, uint64_t>> held;
  unsigned imported_flags = 0;
};
Shared& shared() {
  static Shared* const all = new Shared;
  return *all;
}

// The driver owns an fd from a successful import on. Whoever closes it, or hands it over twice, is found out.
bool hold(MemoryObject object) { return shared().held.insert({object, object_identity(object)}).second; }

bool let_go_of(MemoryObject object, uint64_t identity) {
  shared().held.erase({object, identity});
  if (object_identity(object) != identity) return false;
  close_object(object);
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
        object->memory = object_of_fd(fd);
        if (object->memory < 0) return CUDA_ERROR_NOT_SUPPORTED;
        if (descriptor->size == 0 || object_size(object->memory) < descriptor->size) return CUDA_ERROR_INVALID_VALUE;
        object->identity = object_identity(object->memory);
        twice = !hold(fd);
        break;
      }
      case CU_EXTERNAL_MEMORY_HANDLE_TYPE_D3D12_RESOURCE:
      case CU_EXTERNAL_MEMORY_HANDLE_TYPE_D3D12_HEAP:
      case CU_EXTERNAL_MEMORY_HANDLE_TYPE_OPAQUE_WIN32: {
        const NtObject* nt = find_nt(descriptor->handle.win32.handle);
        if (nt == nullptr || nt->memory < 0 || nt->size_bytes < descriptor->size) return CUDA_ERROR_INVALID_VALUE;
        const bool dedicated = (descriptor->flags & CUDA_EXTERNAL_MEMORY_DEDICATED) != 0;
        // A resource is an allocation of its own, a heap is not.
        if (descriptor->type == CU_EXTERNAL_MEMORY_HANDLE_TYPE_D3D12_RESOURCE && !dedicated)
          return CUDA_ERROR_INVALID_VALUE;
        if (descriptor->type == CU_EXTERNAL_MEMORY_HANDLE_TYPE_D3D12_HEAP && dedicated) return CUDA_ERROR_INVALID_VALUE;
        object->memory = open_handle(descriptor->handle.win32.handle, nt->memory);
        if (object->memory < 0) return CUDA_ERROR_INVALID_HANDLE;
        object->identity = object_identity(object->memory);
        break;
      }
      default:
        return CUDA_ERROR_NOT_SUPPORTED;
    }
    *out = reinterpret_cast<CUexternalMemory>(object.get());
    Object* const key = object.get();
    shared().objects[key] = std::move(object);
    shared().imported_flags = descriptor->flags;
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
  void* const mapped = map_object(object.memory, object.size_bytes);
  if (mapped == nullptr) return CUDA_ERROR_OPERATING_SYSTEM;
  // The region begins where the buffer does; what lies before it in the object is mapped, and nobody's.
  const uintptr_t address = reinterpret_cast<uintptr_t>(mapped) + descriptor->offset;
  state().regions[address] = {
      .kind = Region::Kind::kExternal, .size_bytes = descriptor->size, .owner = reinterpret_cast<void*>(memory)};
  object.buffers[address] = mapped;
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
      if (object != shared().objects.end()) {
        unmap_object(object->second->buffers[address], object->second->size_bytes);
        object->second->buffers.erase(address);
      }
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
    if (!let_go_of(found->second->memory, found->second->identity))
      wrong = format("{} was the driver's, and somebody closed it.", found->second->memory);
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
    semaphore->identity = object_identity(object_of_fd(semaphore->fd));
    const std::lock_guard lock(state().mutex);
    twice = !hold(semaphore->fd);
  } else {
    const std::lock_guard lock(state().mutex);
    const NtObject* nt = find_nt(descriptor->handle.win32.handle);
    if (nt == nullptr || nt->timeline == nullptr) return CUDA_ERROR_INVALID_VALUE;
    if (!handle_is_open(descriptor->handle.win32.handle)) return CUDA_ERROR_INVALID_HANDLE;
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
  return queue_semaphore_waits(*queue, {semaphores, count}, {parameters, count});
}

CUresult CUDAAPI signal_semaphores(const CUexternalSemaphore* semaphores,
                                   const CUDA_EXTERNAL_SEMAPHORE_SIGNAL_PARAMS* parameters, unsigned count,
                                   CUstream stream) {
  TENON_FAKE_CONTEXT("cuSignalExternalSemaphoresAsync");
  const auto queue = find_stream(stream);
  if (queue == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  return queue_semaphore_signals(*queue, {semaphores, count}, {parameters, count});
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
    if (semaphore->fd >= 0 && !let_go_of(semaphore->fd, semaphore->identity))
      wrong = format("fd {} was the driver's, and somebody closed it.", semaphore->fd);
    shared().semaphores.erase(semaphore.get());
  }
  if (!wrong.empty()) violation(wrong);
  return CUDA_SUCCESS;
}

}  // namespace

// A capture would make nodes of them; nobody captures them here, and this driver does not do it.
CUresult queue_semaphore_waits(FakeStream& stream, std::span<const CUexternalSemaphore> semaphores,
                               std::span<const CUDA_EXTERNAL_SEMAPHORE_WAIT_PARAMS> parameters) {
  if (stream.capturing()) return CUDA_ERROR_NOT_SUPPORTED;
  for (size_t i = 0; i < semaphores.size(); ++i) {
    const auto semaphore = find_semaphore(semaphores[i]);
    if (semaphore == nullptr) return CUDA_ERROR_INVALID_HANDLE;
    ++semaphore->pending;
    {
      const std::lock_guard lock(state().mutex);
      ++state().foreign_waits;
    }
    stream.queue(
        [semaphore, value = parameters[i].params.fence.value] {
          Status done = semaphore->timeline->wait(value, kWaitForever);
          // A driver does not learn that the program is gone which was to signal.
          while (done.code() == StatusCode::kDeviceLost) {
            std::this_thread::sleep_for(std::chrono::milliseconds(1));
            const Result<uint64_t> reached = semaphore->timeline->value();
            if (reached.ok() && *reached >= value) done = Status();
          }
          --semaphore->pending;
          const std::lock_guard lock(state().mutex);
          --state().foreign_waits;
          return done.ok() ? CUDA_SUCCESS : CUDA_ERROR_EXTERNAL_DEVICE;
        },
        true);
  }
  return CUDA_SUCCESS;
}

CUresult queue_semaphore_signals(FakeStream& stream, std::span<const CUexternalSemaphore> semaphores,
                                 std::span<const CUDA_EXTERNAL_SEMAPHORE_SIGNAL_PARAMS> parameters) {
  if (stream.capturing()) return CUDA_ERROR_NOT_SUPPORTED;
  for (size_t i = 0; i < semaphores.size(); ++i) {
    const auto semaphore = find_semaphore(semaphores[i]);
    if (semaphore == nullptr) return CUDA_ERROR_INVALID_HANDLE;
    ++semaphore->pending;
    stream.queue(
        [semaphore, value = parameters[i].params.fence.value] {
          const Status done = semaphore->timeline->signal(value);
          --semaphore->pending;
          return done.ok() ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
        },
        true);
  }
  return CUDA_SUCCESS;
}

void add_external_functions(Table& table) {
  add_function(table, "cuMemFree", &mem_free);
  add_function(table, "cuImportExternalMemory", &import_memory);
  add_function(table, "cuExternalMemoryGetMappedBuffer", &map_buffer);
  add_function(table, "cuDestroyExternalMemory", &destroy_memory);
  add_function(table, "cuImportExternalSemaphore", &import_semaphore);
  add_function(table, "cuWaitExternalSemaphoresAsync", &wait_semaphores);
  add_function(table, "cuSignalExternalSemaphoresAsync", &signal_semaphores);
  add_function(table, "cuDestroyExternalSemaphore", &destroy_semaphore);
  add_system_functions(table);
}

void* make_nt_memory(size_t size_bytes) {
  auto object = std::make_unique<NtObject>();
  object->memory = make_object(size_bytes);
  object->size_bytes = size_bytes;
  object->view = static_cast<std::byte*>(map_object(object->memory, size_bytes));
  void* const handle = make_handle_of(object->memory);
  const std::lock_guard lock(state().mutex);
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
  void* const handle = make_handle_of_fence();
  const std::lock_guard lock(state().mutex);
  shared().nt[handle] = std::move(object);
  return handle;
}

std::shared_ptr<Timeline> nt_timeline(void* handle) {
  const std::lock_guard lock(state().mutex);
  const NtObject* object = find_nt(handle);
  return object != nullptr ? object->timeline : nullptr;
}

unsigned imported_flags() {
  const std::lock_guard lock(state().mutex);
  return shared().imported_flags;
}

bool nt_is_open(void* handle) { return handle_is_open(handle); }
void close_nt(void* handle) { close_handle(handle); }

}  // namespace tenon::cuda::fake
