// A model of Windows' NT handles: numbers of a table of this process. An object lives while a handle, or an import of
// it, does. An import opens a duplicate, so the caller's handle stays the caller's.
//
// Threads: every function from any thread.
#pragma once

#include <tenon/fence.h>

#include <cstddef>
#include <cstdint>
#include <memory>

#include "base/status.h"

namespace tenon::sim {

// The object of a handle: a D3D12 resource or heap, exported Vulkan memory, a D3D12 fence or a Vulkan timeline.
struct NtObject {
  std::shared_ptr<std::byte> memory;  // null: a fence
  size_t size_bytes = 0;
  std::shared_ptr<Timeline> fence;  // null: memory
};

Result<uint64_t> nt_create_memory(size_t size_bytes);
Result<uint64_t> nt_create_fence(uint64_t initial_value);
// Errors: kInvalidArgument for a number that is no open handle.
Result<uint64_t> nt_duplicate(uint64_t handle);
Status nt_close(uint64_t handle);
Result<NtObject> nt_open(uint64_t handle);

}  // namespace tenon::sim
