// Imports that map a file descriptor: fd_memory_posix.cc; fd_memory_win32.cc refuses them.
#pragma once

#include <tenon/external_memory.h>

#include "interop/external_handle.h"

namespace tenon {

// False where file descriptors name no memory: kinds of handles that are one cannot be imported there.
extern const bool kFdsShareMemory;

struct FdObject {
  uint64_t size_bytes = 0;
  bool can_shrink = true;  // no seal forbids it
};

// Size of the object behind an open fd. `what` begins messages: "input "x" (mappable_fd)".
// Errors: kInvalidArgument when the fd is not open; kUnsupported when it is of a kind that has no size (a pipe, a
// device).
Result<FdObject> query_fd_object(int fd, const std::string& what);

// Maps the descriptor's range, and keeps a duplicate of the fd: the caller's stays the caller's.
Result<std::shared_ptr<ExternalMemory>> map_fd(const ExternalHandle& handle, const ExternalMemoryDescriptor& descriptor,
                                               const std::string& what);

}  // namespace tenon
