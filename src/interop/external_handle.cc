#include "interop/external_handle.h"

#include <algorithm>
#include <cstring>

#include "base/status.h"

namespace tenon {

namespace {

constexpr uint32_t kKnownFlags =
    TENON_EXTERNAL_MEMORY_READ_ONLY | TENON_EXTERNAL_MEMORY_DLPACK_VERSIONED | TENON_EXTERNAL_MEMORY_DEVICE_LUID;

Result<const HandleKindRow*> row_of(uint32_t kind) {
  const HandleKindRow* row = find_handle_kind(static_cast<ExternalMemoryKind>(kind));
  TENON_UNSUPPORTED_IF(row == nullptr, "External memory of kind {:#x} cannot be imported: the kind is unknown.", kind);
  return row;
}

Result<ExternalHandle> read_plain(const HandleKindRow& row, void* native_handle) {
  ExternalHandle handle{.kind = row.kind, .type = row.type};
  if (row.type == HandleType::kFd) {
    // The pointer's bits are the integer: null is fd 0, which is a valid one.
    const auto value = reinterpret_cast<intptr_t>(native_handle);
    TENON_INVALID_IF(value < 0 || value > INT32_MAX, "native_handle ({}) of kind {} is no file descriptor.", value,
                     row.name);
    handle.fd = static_cast<int>(value);
  } else {
    TENON_INVALID_IF(native_handle == nullptr, "native_handle is null; kind {} takes a {}.", row.name,
                     handle_type_name(row.type));
    handle.pointer = native_handle;
  }
  return handle;
}

}  // namespace

std::string uuid_text(const DeviceUuid& uuid) {
  std::string text;
  for (size_t i = 0; i < uuid.size(); ++i) {
    if (i == 4 || i == 6 || i == 8 || i == 10) text += '-';
    text += format("{:02x}", uuid[i]);
  }
  return text;
}

Result<ExternalHandle> read_external_handle(uint32_t handle_type, void* native_handle) {
  const bool described = handle_type == TENON_EXTERNAL_MEMORY_DESCRIBED;
  if (handle_type < TENON_EXTERNAL_HANDLE_FIRST) {
    TENON_TRY_ASSIGN(const HandleKindRow* row, row_of(handle_type));
    return read_plain(*row, native_handle);
  }
  if (!described) TENON_TRY(row_of(handle_type).status());

  TENON_INVALID_IF(native_handle == nullptr,
                   "native_handle is null; handle type {:#x} takes a TenonExternalMemoryInfo.", handle_type);
  TenonExternalMemoryInfo info;
  // The version first: another one's struct may be shorter.
  std::memcpy(&info.version, native_handle, sizeof(info.version));
  TENON_INVALID_IF(info.version != TENON_EXTERNAL_MEMORY_INFO_VERSION,
                   "TenonExternalMemoryInfo.version ({}) is unknown; this build knows {}.", info.version,
                   TENON_EXTERNAL_MEMORY_INFO_VERSION);
  std::memcpy(&info, native_handle, sizeof(info));
  TENON_INVALID_IF(!described && info.kind != handle_type,
                   "TenonExternalMemoryInfo.kind ({:#x}) differs from handle_type ({:#x}).", info.kind, handle_type);
  TENON_INVALID_IF((info.flags & ~kKnownFlags) != 0, "TenonExternalMemoryInfo.flags ({:#x}) has unknown bits.",
                   info.flags);
  TENON_INVALID_IF(info.dedicated > 1, "TenonExternalMemoryInfo.dedicated ({}) is neither 0 nor 1.", info.dedicated);
  TENON_TRY_ASSIGN(const HandleKindRow* row, row_of(info.kind));

  ExternalHandle handle{.kind = row->kind, .type = row->type};
  handle.read_only = (info.flags & TENON_EXTERNAL_MEMORY_READ_ONLY) != 0;
  handle.dlpack_versioned = (info.flags & TENON_EXTERNAL_MEMORY_DLPACK_VERSIONED) != 0;
  handle.dedicated = info.dedicated == 1;
  const auto is_set = [](uint8_t byte) { return byte != 0; };
  if ((info.flags & TENON_EXTERNAL_MEMORY_DEVICE_LUID) != 0) {
    uint8_t* const end = std::begin(info.device_uuid) + TENON_DEVICE_LUID_BYTES;
    TENON_INVALID_IF(row->type != HandleType::kNtHandle,
                     "TenonExternalMemoryInfo.flags say that device_uuid is an adapter's LUID, which a {} has not.",
                     row->name);
    TENON_INVALID_IF(std::any_of(end, std::end(info.device_uuid), is_set),
                     "TenonExternalMemoryInfo.device_uuid is an adapter's LUID, but the bytes behind it are not 0.");
    DeviceLuid luid;
    std::copy(std::begin(info.device_uuid), end, luid.begin());
    handle.device_luid = luid;
  } else if (std::any_of(std::begin(info.device_uuid), std::end(info.device_uuid), is_set)) {
    DeviceUuid uuid;
    std::copy(std::begin(info.device_uuid), std::end(info.device_uuid), uuid.begin());
    handle.device_uuid = uuid;
  }
  TENON_INVALID_IF(handle.dlpack_versioned && row->type != HandleType::kDlpack,
                   "TenonExternalMemoryInfo.flags say that a {} is a DLPack tensor.", row->name);
  switch (row->type) {
    case HandleType::kFd:
      TENON_INVALID_IF(info.handle.fd < 0, "TenonExternalMemoryInfo.handle.fd ({}) is no file descriptor.",
                       info.handle.fd);
      handle.fd = info.handle.fd;
      break;
    case HandleType::kIpc:
      std::copy(std::begin(info.handle.ipc), std::end(info.handle.ipc), handle.ipc.begin());
      break;
    case HandleType::kPointer:
    case HandleType::kNtHandle:
    case HandleType::kDlpack:
      TENON_INVALID_IF(info.handle.pointer == nullptr, "TenonExternalMemoryInfo.handle is null; kind {} takes a {}.",
                       row->name, handle_type_name(row->type));
      handle.pointer = info.handle.pointer;
      break;
  }
  return handle;
}

std::string luid_text(const DeviceLuid& luid) {
  std::string text;
  for (const uint8_t byte : luid) text += format("{:02x}", byte);
  return text;
}

Status check_device_luid(const ExternalHandle& handle, const std::optional<DeviceLuid>& importer) {
  TENON_INVALID_IF(handle.device_luid && importer && *handle.device_luid != *importer,
                   "TenonExternalMemoryInfo.device_uuid says that the adapter with LUID {} made the memory; the device "
                   "with LUID {} cannot import it.",
                   luid_text(*handle.device_luid), luid_text(*importer));
  return Status();
}

Status check_device_uuid(const ExternalHandle& handle, const DeviceUuid& importer) {
  TENON_INVALID_IF(
      handle.device_uuid && *handle.device_uuid != importer,
      "TenonExternalMemoryInfo.device_uuid says that device {} made the memory; device {} cannot import it.",
      uuid_text(*handle.device_uuid), uuid_text(importer));
  return Status();
}

}  // namespace tenon
