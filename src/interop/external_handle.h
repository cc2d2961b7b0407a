// Reads and checks the handle that a caller of the C ABI gives for an import: the native handle with its kind, and the
// fields of TenonExternalMemoryInfo.
//
// Ownership: an ExternalHandle borrows; handle_table.h states the owner of the handle after an import.
#pragma once

#include <tenon/external_handles.h>
#include <tenon/external_memory.h>

#include <array>
#include <cstdint>
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
  std::array<uint8_t, TENON_IPC_HANDLE_BYTES> ipc{};
  bool dlpack_versioned = false;
  bool read_only = false;
  bool dedicated = false;
  // Of the device that made the memory, where one of them is known.
  std::optional<DeviceUuid> device_uuid;
  std::optional<DeviceLuid> device_luid;
};

// Reads `native_handle` as `handle_type` says (a value of OrtExternalMemoryHandleType or of
// <tenon/external_handles.h>). Errors: kUnsupported for a kind that nobody knows; kInvalidArgument for null where that
// is no handle, a negative fd, an unknown version or flag, an inner kind that contradicts the outer one.
Result<ExternalHandle> read_external_handle(uint32_t handle_type, void* native_handle);

// kInvalidArgument, naming both devices, for memory that another device than `importer` made. Memory whose device is
// not known is not checked.
Status check_device_uuid(const ExternalHandle& handle, const DeviceUuid& importer);
// The same by the adapter's LUID. `importer` is empty where the device's is not known: then nothing is checked.
Status check_device_luid(const ExternalHandle& handle, const std::optional<DeviceLuid>& importer);

}  // namespace tenon
