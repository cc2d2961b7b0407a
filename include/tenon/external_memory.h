// Imports memory that another program or API owns, so that runs use it in place (S1, S2).
//
// Ownership: an import is a transaction. On OK the import owns what the kind's rule says (see ExternalMemoryKind) and
// `handle` is empty; on error the caller's handle is untouched and nothing is left behind. A Tensor made from an import
// keeps it alive.
// Threads: every function from any thread.
// Errors: kInvalidArgument names the field and its values; kUnsupported: this machine or build cannot import the kind.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "tenon/tensor.h"

namespace tenon {

// Values from 0x544E0000 up are Tenon's own (as in <tenon/external_handles.h>); the others are ONNX Runtime's
// OrtExternalMemoryHandleType.
enum class ExternalMemoryKind : uint32_t {
  kD3d12Resource = 0,
  kD3d12Heap = 1,
  kVulkanOpaqueWin32 = 2,
  kVulkanOpaqueFd = 3,           // an fd that vkGetMemoryFdKHR gave out; consumed on success
  kHostAllocation = 0x544E0000,  // a pointer; stays the caller's
  kMappableFd = 0x544E0001,      // memfd, POSIX shared memory, any fd that mmap takes; consumed on success
  kDlpack = 0x544E0002,          // a DLManagedTensorVersioned*; consumed on success: its deleter is called once
  kCudaVmmFd = 0x544E0003,
  kCudaIpc = 0x544E0004,
  kDmaBufFd = 0x544E0005,
};

TENON_API std::string external_memory_kind_name(ExternalMemoryKind kind);

// A file descriptor or pointer with one owner. Move-only.
class TENON_API OwnedHandle {
 public:
  OwnedHandle() = default;
  static OwnedHandle take_fd(int fd);                // closes it when destroyed; 0 is a valid fd
  static OwnedHandle borrow_pointer(void* pointer);  // never freed
  OwnedHandle(OwnedHandle&& other) noexcept;
  OwnedHandle& operator=(OwnedHandle&& other) noexcept;
  ~OwnedHandle();

  bool valid() const { return fd_ >= 0 || pointer_ != nullptr; }
  int fd() const { return fd_; }
  void* pointer() const { return pointer_; }
  // Gives up ownership of the fd.
  [[nodiscard]] int release_fd();
  void reset();
  // A duplicate of the fd (F_DUPFD_CLOEXEC), or the same borrowed pointer.
  Result<OwnedHandle> dup() const;

 private:
  int fd_ = -1;
  void* pointer_ = nullptr;
};

struct ExternalMemoryDescriptor {
  ExternalMemoryKind kind = ExternalMemoryKind::kMappableFd;
  size_t size_bytes = 0;    // of the import; 0 is refused
  size_t offset_bytes = 0;  // where in the handle's object it begins; any value that fits, not only multiples of a page
  bool writable = true;     // false: mapped for reading only
  std::string name = {};    // for messages: input "x"
};

class TENON_API ExternalMemory {
 public:
  // True if import() of this kind can work on this machine. Has no side effect, promises no success.
  static bool can_import(ExternalMemoryKind kind);
  static Result<std::shared_ptr<ExternalMemory>> import(OwnedHandle& handle,
                                                        const ExternalMemoryDescriptor& descriptor);

  virtual ~ExternalMemory() = default;
  virtual void* data() const = 0;  // the first byte of the import, host-addressable
  virtual size_t size_bytes() const = 0;
  virtual ExternalMemoryKind kind() const = 0;
  virtual const std::string& name() const = 0;
  virtual bool writable() const = 0;
  // OK while the object behind the import still has the imported bytes. A file or memfd that its owner may shrink can
  // lose them, and then any access ends the process with SIGBUS: seal memfds with F_SEAL_SHRINK, and check others
  // before use. create_tensor checks too.
  virtual Status check() const = 0;

  // A view at `offset_bytes` (aligned to the element) that keeps `memory` alive. offset + bytes must lie inside.
  // Read-only when the import is.
  static Result<Tensor> create_tensor(const std::shared_ptr<ExternalMemory>& memory, DataType type, const Shape& shape,
                                      size_t offset_bytes = 0);
};

// llvmpipe's opaque fd is a memfd that holds the buffer at an offset which the driver does not tell. The caller finds
// it by exporting an allocation that begins with `nonce` and passing it here; any other layout is refused. Returns the
// offset in bytes of the first byte of the allocation inside the fd's object.
TENON_API Result<size_t> find_opaque_fd_offset(int fd, const void* nonce, size_t nonce_bytes);

}  // namespace tenon
