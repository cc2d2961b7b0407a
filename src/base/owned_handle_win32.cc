// OwnedHandle over file descriptors of the C runtime. It holds no NT handles: they stay the caller's, and drivers take
// a reference of their own (src/interop/handle_table.h).
#include <io.h>
#include <tenon/external_memory.h>

#include <cerrno>
#include <utility>

#include "base/fault.h"
#include "base/status.h"

namespace tenon {

void OwnedHandle::reset() {
  if (fd_ >= 0) ::_close(fd_);
  fd_ = -1;
  pointer_ = nullptr;
}

Result<OwnedHandle> OwnedHandle::dup() const {
  if (fd_ < 0) {
    TENON_INVALID_IF(pointer_ == nullptr, "An empty handle cannot be duplicated.");
    return borrow_pointer(pointer_);
  }
  TENON_FAULT_POINT("dup");
  const int copy = ::_dup(fd_);
  if (copy < 0) {
    const int error = errno;
    TENON_INVALID_IF(error == EBADF, "File descriptor {} is not open.", fd_);
    return resource_exhausted("File descriptor {} cannot be duplicated: {}.", fd_, errno_text("_dup", error));
  }
  return take_fd(copy);
}

}  // namespace tenon
