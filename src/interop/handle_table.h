// The table of external handle kinds: type, owner after an import, support by the CPU device.
#pragma once

#include <tenon/external_memory.h>

namespace tenon {

enum class HandleType : uint8_t { kFd, kPointer, kNtHandle, kDlpack, kIpc };

constexpr const char* handle_type_name(HandleType type) {
  constexpr const char* kNames[] = {"file descriptor", "pointer", "NT handle", "DLPack tensor", "IPC handle"};
  return kNames[static_cast<size_t>(type)];
}

// What a successful import does with the caller's handle. A failed one never touches it.
enum class HandleOwnership : uint8_t {
  kConsumed,    // the import has it; the caller's is empty
  kDuplicated,  // the import has a duplicate; the caller closes its own
  kBorrowed,    // nothing changes hands; the caller keeps the memory alive as long as the import
};

struct HandleKindRow {
  ExternalMemoryKind kind;
  const char* name;
  HandleType type;
  HandleOwnership ownership;
  bool importable;           // by the CPU device; file descriptors only where they share memory
  const char* why_not = "";  // a half sentence, when it is not
};

inline constexpr HandleKindRow kHandleKinds[] = {
    {ExternalMemoryKind::kD3d12Resource, "d3d12_resource", HandleType::kNtHandle, HandleOwnership::kDuplicated, false,
     "the CPU device has no Direct3D 12"},
    {ExternalMemoryKind::kD3d12Heap, "d3d12_heap", HandleType::kNtHandle, HandleOwnership::kDuplicated, false,
     "the CPU device has no Direct3D 12"},
    {ExternalMemoryKind::kVulkanOpaqueWin32, "vulkan_opaque_win32", HandleType::kNtHandle, HandleOwnership::kDuplicated,
     false, "the CPU device maps no NT handles"},
    {ExternalMemoryKind::kVulkanOpaqueFd, "vulkan_opaque_fd", HandleType::kFd, HandleOwnership::kConsumed, true},
    {ExternalMemoryKind::kHostAllocation, "host_allocation", HandleType::kPointer, HandleOwnership::kBorrowed, true},
    {ExternalMemoryKind::kMappableFd, "mappable_fd", HandleType::kFd, HandleOwnership::kConsumed, true},
    {ExternalMemoryKind::kDlpack, "dlpack", HandleType::kDlpack, HandleOwnership::kConsumed, true},
    {ExternalMemoryKind::kCudaVmmFd, "cuda_vmm_fd", HandleType::kFd, HandleOwnership::kConsumed, false,
     "the CPU device has no CUDA"},
    {ExternalMemoryKind::kCudaIpc, "cuda_ipc", HandleType::kIpc, HandleOwnership::kBorrowed, false,
     "the CPU device has no CUDA"},
    {ExternalMemoryKind::kDmaBufFd, "dma_buf_fd", HandleType::kFd, HandleOwnership::kConsumed, false,
     "the CPU device orders nothing against a dma-buf's device; one that maps can be imported as a mappable_fd"},
};

// Null for a value outside the enum.
constexpr const HandleKindRow* find_handle_kind(ExternalMemoryKind kind) {
  for (const HandleKindRow& row : kHandleKinds)
    if (row.kind == kind) return &row;
  return nullptr;
}

}  // namespace tenon
