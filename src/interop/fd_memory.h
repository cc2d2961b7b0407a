// Imports that map a file descriptor.
#pragma once

#include <tenon/external_memory.h>

namespace tenon {

struct FdObject {
  uint64_t size_bytes = 0;
  bool can_shrink = true;  // no seal forbids it
};

// Size of the object behind an open fd. `what` begins messages: "input "x" (mappable_fd)".
// Errors: kInvalidArgument when the fd is not open; kUnsupported when it is of a kind that has no size (a pipe, a
// device).
Result<FdObject> query_fd_object(int fd, const std::string& what);

// Maps the descriptor's range. Consumes `handle` on success (see ExternalMemory::import).
Result<std::shared_ptr<ExternalMemory>> import_fd(OwnedHandle& handle, const ExternalMemoryDescriptor& descriptor,
                                                  const std::string& what);

}  // namespace tenon
