#include "interop/external_handle.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <span>

#include "base/status.h"

namespace tenon {

namespace {

constexpr uint32_t kKnownFlags =
    TENON_EXTERNAL_MEMORY_READ_ONLY | TENON_EXTERNAL_MEMORY_DLPACK_VERSIONED | TENON_EXTERNAL_MEMORY_DEVICE_LUID;

Result<const HandleKindRow*> row_of(ExternalMemoryKind kind) {
  const HandleKindRow* row = find_handle_kind(kind);
  TENON_UNSUPPORTED_IF(row == nullptr, "External memory of {} cannot be imported: the kind is unknown.",
                       external_memory_kind_name(kind));
  return row;
}
Result<const TimelineKindRow*> row_of(TimelineKind kind) {
  const TimelineKindRow* row = find_handle_kind(kind);
  TENON_UNSUPPORTED_IF(row == nullptr, "An external semaphore of {} cannot be imported: the kind is unknown.",
                       timeline_kind_name(kind));
  return row;
}

// Handles whose owner gives the memory back itself (see ExternalHandle::taken).
bool calls_its_producer(HandleType type) { return type == HandleType::kDlpack || type == HandleType::kCallbacks; }

template <typename Handle, typename Row>
Handle empty_handle(const Row& row) {
  Handle handle;
  handle.kind = row.kind;
  handle.type = row.type;
  if (calls_its_producer(row.type)) handle.taken = std::make_shared<bool>(false);
  return handle;
}

// Of descriptors that have the handle itself in `native_handle`.
template <typename Handle, typename Row>
Result<Handle> read_plain(const Row& row, void* native_handle) {
  Handle handle = empty_handle<Handle>(row);
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

template <typename Handle, typename Row>
Result<Handle> read_owned(const Row& row, const OwnedHandle& owned, const std::string& what) {
  TENON_INVALID_IF(!owned.valid(), "The handle of {} is empty.", what);
  const bool is_fd = owned.fd() >= 0;
  TENON_INVALID_IF(is_fd != (row.type == HandleType::kFd), "The handle of {} is a {}, but the kind takes a {}.", what,
                   is_fd ? "file descriptor" : "pointer", handle_type_name(row.type));
  Handle handle = empty_handle<Handle>(row);
  handle.fd = owned.fd();
  handle.pointer = owned.pointer();
  return handle;
}

// The one place that carries out the ownership rules. Imports keep duplicates of file descriptors, so a consumed one is
// closed.
template <typename Handle, typename Row>
void consume_by_row(const Handle& handle, const Row* row) {
  if (row == nullptr || row->ownership != HandleOwnership::kConsumed) return;
  if (row->type == HandleType::kFd) (void)OwnedHandle::take_fd(handle.fd);
  if (handle.taken != nullptr) *handle.taken = true;
}

template <typename Handle>
void consume_owned(OwnedHandle& owned, const Handle& handle) {
  const auto* row = find_handle_kind(handle.kind);
  const bool consumed = row != nullptr && row->ownership == HandleOwnership::kConsumed;
  if (handle.type == HandleType::kFd && !consumed) return;
  consume(handle);
  (void)owned.release_fd();  // closed by now
  owned.reset();
}

}  // namespace

void consume(const ExternalHandle& handle) { consume_by_row(handle, find_handle_kind(handle.kind)); }
void consume(const ExternalSemaphore& semaphore) { consume_by_row(semaphore, find_handle_kind(semaphore.kind)); }
void consume(OwnedHandle& owned, const ExternalHandle& handle) { consume_owned(owned, handle); }
void consume(OwnedHandle& owned, const ExternalSemaphore& semaphore) { consume_owned(owned, semaphore); }

namespace {

template <typename Kind, size_t kCount>
constexpr std::array<Kind, kCount> kinds_of(const HandleRow<Kind> (&rows)[kCount]) {
  std::array<Kind, kCount> kinds{};
  for (size_t i = 0; i < kCount; ++i) kinds[i] = rows[i].kind;
  return kinds;
}

}  // namespace

std::span<const ExternalMemoryKind> external_memory_kinds() {
  static constexpr auto kKinds = kinds_of(kHandleKinds);
  return kKinds;
}
std::span<const TimelineKind> timeline_kinds() {
  static constexpr auto kKinds = kinds_of(kTimelineKinds);
  return kKinds;
}

std::string external_memory_kind_name(ExternalMemoryKind kind) {
  const HandleKindRow* row = find_handle_kind(kind);
  return row != nullptr ? row->name : format("kind {:#x}", static_cast<uint32_t>(kind));
}

std::string timeline_kind_name(TimelineKind kind) {
  const TimelineKindRow* row = find_handle_kind(kind);
  return row != nullptr ? row->name : format("kind {:#x}", static_cast<uint32_t>(kind));
}

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
    TENON_TRY_ASSIGN(const HandleKindRow* row, row_of(static_cast<ExternalMemoryKind>(handle_type)));
    return read_plain<ExternalHandle>(*row, native_handle);
  }
  if (!described) TENON_TRY(row_of(static_cast<ExternalMemoryKind>(handle_type)).status());

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
  TENON_TRY_ASSIGN(const HandleKindRow* row, row_of(static_cast<ExternalMemoryKind>(info.kind)));

  auto handle = empty_handle<ExternalHandle>(*row);
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
    case HandleType::kCallbacks:
      TENON_INVALID_IF(info.handle.pointer == nullptr, "TenonExternalMemoryInfo.handle is null; kind {} takes a {}.",
                       row->name, handle_type_name(row->type));
      handle.pointer = info.handle.pointer;
      break;
  }
  return handle;
}

Result<ExternalSemaphore> read_external_semaphore(uint32_t type, void* native_handle) {
  TENON_TRY_ASSIGN(const TimelineKindRow* row, row_of(static_cast<TimelineKind>(type)));
  return read_plain<ExternalSemaphore>(*row, native_handle);
}

Result<ExternalHandle> read_external_handle(const OwnedHandle& owned, const ExternalMemoryDescriptor& descriptor) {
  TENON_TRY_ASSIGN(const HandleKindRow* row, row_of(descriptor.kind));
  const std::string what = format("\"{}\" ({})", descriptor.name, row->name);
  TENON_TRY_ASSIGN(ExternalHandle handle, read_owned<ExternalHandle>(*row, owned, what));
  TENON_INVALID_IF(descriptor.size_bytes == 0, "The size of {} is 0.", what);
  if (handle.type == HandleType::kIpc) std::memcpy(handle.ipc.data(), handle.pointer, handle.ipc.size());
  handle.dlpack_versioned = handle.type == HandleType::kDlpack;
  handle.read_only = !descriptor.writable;
  handle.dedicated = descriptor.dedicated;
  if (descriptor.device_uuid != DeviceUuid{}) handle.device_uuid = descriptor.device_uuid;
  return handle;
}

Result<ExternalSemaphore> read_external_semaphore(const OwnedHandle& owned, TimelineKind kind,
                                                  const std::string& name) {
  TENON_TRY_ASSIGN(const TimelineKindRow* row, row_of(kind));
  return read_owned<ExternalSemaphore>(*row, owned, format("timeline \"{}\" ({})", name, row->name));
}

TenonExternalMemoryInfo external_memory_info(const ExternalHandle& handle) {
  TenonExternalMemoryInfo info = {};
  info.version = TENON_EXTERNAL_MEMORY_INFO_VERSION;
  info.kind = static_cast<uint32_t>(handle.kind);
  if (handle.read_only) info.flags |= TENON_EXTERNAL_MEMORY_READ_ONLY;
  if (handle.dlpack_versioned) info.flags |= TENON_EXTERNAL_MEMORY_DLPACK_VERSIONED;
  info.dedicated = handle.dedicated ? 1 : 0;
  if (handle.device_uuid) std::copy(handle.device_uuid->begin(), handle.device_uuid->end(), info.device_uuid);
  switch (handle.type) {
    case HandleType::kFd:
      info.handle.fd = handle.fd;
      break;
    case HandleType::kIpc:
      std::copy(handle.ipc.begin(), handle.ipc.end(), info.handle.ipc);
      break;
    case HandleType::kPointer:
    case HandleType::kNtHandle:
    case HandleType::kDlpack:
    case HandleType::kCallbacks:
      info.handle.pointer = handle.pointer;
      break;
  }
  return info;
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
