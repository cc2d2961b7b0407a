// Memory of another API or process, mapped by a CUDA device (S2), whatever kind of handle it comes by.
//
// Ownership: an import is a transaction: on error nothing is left behind. The caller's handle stays the caller's until
// ep/sdk consumes it (src/interop/external_handle.h): a driver that takes an fd gets a duplicate.
// Lifetime: the memory is unmapped when every stream of the device has passed what is queued when the import goes, and
// nobody waits for that. Host memory has to stay until the work that uses it is done.
// Threads: every function from any thread.
#pragma once

#include <memory>

#include "ep/cuda/cuda_memory.h"
#include "interop/external_handle.h"

namespace tenon::cuda {

// Which kinds this system's driver takes; the driver itself says more (dma-bufs). import_memory_posix.cc and
// import_memory_win32.cc say which system this is.
enum class HandleSystem : uint8_t { kPosix, kWindows };
extern const HandleSystem kThisSystem;

// Where an fd's object tells its size, it must hold the range up to `end`. Memory of GPU drivers mostly tells none.
Status check_fd_size(int fd, size_t end);

// Whether handles of this type exist there.
bool system_has(HandleSystem system, HandleType type);
bool can_import(const CudaDevice& device, ExternalMemoryKind kind, HandleSystem system = kThisSystem);

class MemoryImport {
 public:
  virtual ~MemoryImport() = default;
  MemoryImport(const MemoryImport&) = delete;
  MemoryImport& operator=(const MemoryImport&) = delete;

  // `handle` was read and passed can_import. `uuid` is the device's own.
  // Errors: kInvalidArgument for a handle that is none, a size beyond the object's, another device's memory.
  static Result<std::shared_ptr<MemoryImport>> import(const std::shared_ptr<CudaMemory>& memory, const DeviceUuid& uuid,
                                                      const ExternalHandle& handle, size_t size_bytes,
                                                      size_t offset_bytes);

  // The device's address; the host's too when host_accessible().
  void* address() const { return address_; }
  size_t size_bytes() const { return size_bytes_; }
  bool host_accessible() const { return host_accessible_; }
  // OK while the object behind the import still has the imported bytes.
  virtual Status check() const { return Status(); }

 protected:
  MemoryImport(std::shared_ptr<CudaMemory> memory, size_t size_bytes)
      : memory_(std::move(memory)), size_bytes_(size_bytes) {}
  const CudaDriver& driver() const { return memory_->device()->driver(); }

  const std::shared_ptr<CudaMemory> memory_;
  const size_t size_bytes_;
  void* address_ = nullptr;
  bool host_accessible_ = false;
};

}  // namespace tenon::cuda
