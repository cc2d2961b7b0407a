// Memory that another program or API owns, for runs that use it in place (S1, S2). tenon/importer.h imports it.
//
// Ownership: an import owns what the kind's rule says (see ExternalMemoryKind); a Tensor made from it keeps it alive.
// Threads: every function from any thread.
// Errors: kInvalidArgument names the field and its values; kUnsupported: this machine or build cannot import the kind.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "tenon/external_handles.h"
#include "tenon/tensor.h"

namespace tenon {

// Values below TENON_EXTERNAL_HANDLE_FIRST are ONNX Runtime's OrtExternalMemoryHandleType.
enum class ExternalMemoryKind : uint32_t {
  kD3d12Resource = 0,  // NT handles; they stay the caller's
  kD3d12Heap = 1,
  kVulkanOpaqueWin32 = 2,
  kVulkanOpaqueFd = 3,  // an fd that vkGetMemoryFdKHR gave out; consumed on success
  // A pointer; stays the caller's.
  kHostAllocation = TENON_EXTERNAL_MEMORY_HOST_ALLOCATION,
  // memfd, POSIX shared memory, any fd that mmap takes; consumed on success.
  kMappableFd = TENON_EXTERNAL_MEMORY_MAPPABLE_FD,
  // A DLManagedTensorVersioned*; consumed on success: its deleter is called once.
  kDlpack = TENON_EXTERNAL_MEMORY_DLPACK,
  kCudaVmmFd = TENON_EXTERNAL_MEMORY_CUDA_VMM_FD,  // consumed on success
  kCudaIpc = TENON_EXTERNAL_MEMORY_CUDA_IPC,       // a pointer to the 64 bytes of the IPC handle; stays the caller's
  kDmaBufFd = TENON_EXTERNAL_MEMORY_DMA_BUF_FD,    // consumed on success
};

TENON_API std::string external_memory_kind_name(ExternalMemoryKind kind);  // "vulkan_opaque_fd"
// All of them, for programs that ask Importer::can_import of each. Lives as long as the process.
TENON_API std::span<const ExternalMemoryKind> external_memory_kinds();

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
  // A duplicate of an fd that stays the caller's.
  static Result<OwnedHandle> duplicate_fd(int fd);

 private:
  int fd_ = -1;
  void* pointer_ = nullptr;
};

struct ExternalMemoryDescriptor {
  ExternalMemoryKind kind = ExternalMemoryKind::kMappableFd;
  size_t size_bytes = 0;    // of the import; 0 is refused
  size_t offset_bytes = 0;  // where in the handle's object it begins; any value that fits, not only multiples of a page
  bool writable = true;     // false: tensors of the import are read-only
  std::string name = {};    // for messages: input "x"
  bool dedicated = false;   // the allocation was made for one buffer or image alone (Vulkan)
  std::array<uint8_t, TENON_DEVICE_UUID_BYTES> device_uuid = {};  // of the device that made it; all 0: not known
};

class TENON_API ExternalMemory {
 public:
  virtual ~ExternalMemory() = default;
  // The first byte of a host import. Null for an EP's, whose tensors say where they lie (Tensor::space).
  virtual void* data() const = 0;
  virtual size_t size_bytes() const = 0;
  virtual ExternalMemoryKind kind() const = 0;
  virtual const std::string& name() const = 0;
  virtual bool writable() const = 0;
  // OK while the object behind the import still has the imported bytes. A file or memfd that its owner may shrink can
  // lose them, and then any access ends the process with SIGBUS: seal memfds with F_SEAL_SHRINK, and check others
  // before use. create_tensor checks too. An EP's import is checked by create_tensor alone.
  virtual Status check() const = 0;

  // A view at `offset_bytes` (aligned to the element) that keeps `memory` alive. offset + bytes must lie inside.
  // Read-only when the import is.
  static Result<Tensor> create_tensor(const std::shared_ptr<ExternalMemory>& memory, DataType type, const Shape& shape,
                                      size_t offset_bytes = 0);

 protected:
  // The view of create_tensor, which has checked it. `self` owns this object.
  virtual Result<Tensor> make_view(const std::shared_ptr<ExternalMemory>& self, DataType type, const Shape& shape,
                                   size_t offset_bytes) const;
};

// llvmpipe's opaque fd is a memfd that holds the buffer at an offset which the driver does not tell. The caller finds
// it by exporting an allocation that begins with `nonce` and passing it here; any other layout is refused. Returns the
// offset in bytes of the first byte of the allocation inside the fd's object.
TENON_API Result<size_t> find_opaque_fd_offset(int fd, const void* nonce, size_t nonce_bytes);

}  // namespace tenon
