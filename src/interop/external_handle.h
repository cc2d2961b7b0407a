// Reads and checks the handle that a caller gives for an import: the native handle with its kind, and the fields of
// TenonExternalMemoryInfo or ExternalMemoryDescriptor.
//
// Ownership: an ExternalHandle borrows. An importer works with duplicates and calls consume() when nothing can fail any
// more; consume() then does what the kind's row in handle_table.h says.
#pragma once

#include <tenon/external_handles.h>
#include <tenon/external_memory.h>

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "interop/handle_table.h"

namespace tenon {

using DeviceUuid = std::array<uint8_t, TENON_DEVICE_UUID_BYTES>;
// "00112233-4455-6677-8899-aabbccddeeff"
std::string uuid_text(const DeviceUuid& uuid);

// Of a DXGI adapter, as its bytes lie in memory.
using DeviceLuid = std::array<uint8_t, TENON_DEVICE_LUID_BYTES>;
// "0123456789abcdef"
std::string luid_text(const DeviceLuid& luid);

struct ExternalHandle {
  ExternalMemoryKind kind = ExternalMemoryKind::kMappableFd;  // the inner one
  HandleType type = HandleType::kFd;
  int fd = -1;              // kFd
  void* pointer = nullptr;  // kPointer, kNtHandle, kDlpack
  // Of a handle that gives its memory back through a function of the producer: whether the import has it. Until
  // consume() sets it, an import that goes calls nothing of the producer's. Null: it has it from the start.
  std::shared_ptr<bool> taken = nullptr;
  std::array<uint8_t, TENON_IPC_HANDLE_BYTES> ipc{};
  bool dlpack_versioned = false;
  bool read_only = false;
  bool dedicated = false;
  // Of the device that made the memory, where one of them is known.
  std::optional<DeviceUuid> device_uuid;
  std::optional<DeviceLuid> device_luid;
};

struct ExternalSemaphore {
  TimelineKind kind = TimelineKind::kSharedTimelineFd;
  HandleType type = HandleType::kFd;
  int fd = -1;                            // kFd
  void* pointer = nullptr;                // kNtHandle, kCallbacks
  std::shared_ptr<bool> taken = nullptr;  // as of ExternalHandle
};

// Reads `native_handle` as `handle_type` says (a value of OrtExternalMemoryHandleType or of
// <tenon/external_handles.h>). Errors: kUnsupported for a kind that nobody knows; kInvalidArgument for null where that
// is no handle, a negative fd, an unknown version or flag, an inner kind that contradicts the outer one.
Result<ExternalHandle> read_external_handle(uint32_t handle_type, void* native_handle);
// The same of OrtExternalSemaphoreDescriptor.
Result<ExternalSemaphore> read_external_semaphore(uint32_t type, void* native_handle);

// The same of the C++ API's handle. kInvalidArgument also when it is empty, or of another type than the kind takes.
Result<ExternalHandle> read_external_handle(const OwnedHandle& handle, const ExternalMemoryDescriptor& descriptor);
Result<ExternalSemaphore> read_external_semaphore(const OwnedHandle& handle, TimelineKind kind,
                                                  const std::string& name);

// The description that read_external_handle(TENON_EXTERNAL_MEMORY_DESCRIBED, &info) reads as `handle`. Without a
// device's LUID.
TenonExternalMemoryInfo external_memory_info(const ExternalHandle& handle);

// The last step of an import: the caller's handle becomes what its kind's row says. Cannot fail.
void consume(const ExternalHandle& handle);
void consume(const ExternalSemaphore& semaphore);
// The same for the C++ API's handle that was read: it is empty afterwards, unless it is an fd that stays the caller's.
void consume(OwnedHandle& owned, const ExternalHandle& handle);
void consume(OwnedHandle& owned, const ExternalSemaphore& semaphore);

// kInvalidArgument, naming both devices, for memory that another device than `importer` made. Memory whose device is
// not known is not checked.
Status check_device_uuid(const ExternalHandle& handle, const DeviceUuid& importer);
// The same by the adapter's LUID. `importer` is empty where the device's is not known: then nothing is checked.
Status check_device_luid(const ExternalHandle& handle, const std::optional<DeviceLuid>& importer);

}  // namespace tenon
