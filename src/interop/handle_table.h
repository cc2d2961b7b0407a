// The tables of external handle kinds: name, type, owner after an import. Importers never close or release a caller's
// handle themselves; consume() (external_handle.h) does what the row says.
//
// A new kind is a value in <tenon/external_handles.h> and its enum, a row here, and a row with the driver's call in
// each importer that takes it (host_importer.cc, and import_memory.cc and cuda_importer.cc of ep/cuda).
#pragma once

#include <tenon/importer.h>

namespace tenon {

enum class HandleType : uint8_t { kFd, kPointer, kNtHandle, kDlpack, kIpc, kCallbacks };

constexpr const char* handle_type_name(HandleType type) {
  constexpr const char* kNames[] = {"file descriptor", "pointer",    "NT handle",
                                    "DLPack tensor",   "IPC handle", "TenonTimelineCallbacks"};
  return kNames[static_cast<size_t>(type)];
}

// The owner of a handle after a successful import. A failed import never touches the caller's handle.
enum class HandleOwnership : uint8_t {
  kConsumed,    // the import has it; the caller's is empty
  kDuplicated,  // the import has a duplicate; the caller closes its own
  kBorrowed,    // nothing changes hands; the caller keeps the memory alive as long as the import
};

template <typename Kind>
struct HandleRow {
  Kind kind;
  const char* name;
  HandleType type;
  HandleOwnership ownership;
};
using HandleKindRow = HandleRow<ExternalMemoryKind>;
using TimelineKindRow = HandleRow<TimelineKind>;

inline constexpr HandleKindRow kHandleKinds[] = {
    {ExternalMemoryKind::kD3d12Resource, "d3d12_resource", HandleType::kNtHandle, HandleOwnership::kDuplicated},
    {ExternalMemoryKind::kD3d12Heap, "d3d12_heap", HandleType::kNtHandle, HandleOwnership::kDuplicated},
    {ExternalMemoryKind::kVulkanOpaqueWin32, "vulkan_opaque_win32", HandleType::kNtHandle,
     HandleOwnership::kDuplicated},
    {ExternalMemoryKind::kVulkanOpaqueFd, "vulkan_opaque_fd", HandleType::kFd, HandleOwnership::kConsumed},
    {ExternalMemoryKind::kHostAllocation, "host_allocation", HandleType::kPointer, HandleOwnership::kBorrowed},
    {ExternalMemoryKind::kMappableFd, "mappable_fd", HandleType::kFd, HandleOwnership::kConsumed},
    {ExternalMemoryKind::kDlpack, "dlpack", HandleType::kDlpack, HandleOwnership::kConsumed},
    {ExternalMemoryKind::kCudaVmmFd, "cuda_vmm_fd", HandleType::kFd, HandleOwnership::kConsumed},
    {ExternalMemoryKind::kCudaIpc, "cuda_ipc", HandleType::kIpc, HandleOwnership::kBorrowed},
    {ExternalMemoryKind::kDmaBufFd, "dma_buf_fd", HandleType::kFd, HandleOwnership::kConsumed},
};

inline constexpr TimelineKindRow kTimelineKinds[] = {
    {TimelineKind::kD3d12Fence, "d3d12_fence", HandleType::kNtHandle, HandleOwnership::kDuplicated},
    {TimelineKind::kVulkanTimelineWin32, "vulkan_timeline_win32", HandleType::kNtHandle, HandleOwnership::kDuplicated},
    {TimelineKind::kVulkanTimelineFd, "vulkan_timeline_fd", HandleType::kFd, HandleOwnership::kConsumed},
    {TimelineKind::kSharedTimelineFd, "shared_timeline_fd", HandleType::kFd, HandleOwnership::kConsumed},
    {TimelineKind::kHostCallbacks, "host_callbacks", HandleType::kCallbacks, HandleOwnership::kConsumed},
};

// Null for a value outside the enum.
constexpr const HandleKindRow* find_handle_kind(ExternalMemoryKind kind) {
  for (const HandleKindRow& row : kHandleKinds)
    if (row.kind == kind) return &row;
  return nullptr;
}
constexpr const TimelineKindRow* find_handle_kind(TimelineKind kind) {
  for (const TimelineKindRow& row : kTimelineKinds)
    if (row.kind == kind) return &row;
  return nullptr;
}

}  // namespace tenon
