#include <fcntl.h>
#include <tenon/external_memory.h>
#include <unistd.h>

#include <cerrno>

#include "base/fault.h"
#include "base/status.h"

namespace tenon {

void OwnedHandle::reset() {
  // An fd is gone after close() also when close reports an error: never close it twice.
  if (fd_ >= 0) ::close(fd_);
  fd_ = -1;
  pointer_ = nullptr;
}

Result<OwnedHandle> OwnedHandle::dup() const {
  if (fd_ < 0) {
    TENON_INVALID_IF(pointer_ == nullptr, "An empty handle cannot be duplicated.");
    return borrow_pointer(pointer_);
  }
  TENON_FAULT_POINT("dup");
  const int copy = ::fcntl(fd_, F_DUPFD_CLOEXEC, 0);
  if (copy < 0) {
    const int error = errno;
    TENON_INVALID_IF(error == EBADF, "File descriptor {} is not open.", fd_);
    return resource_exhausted("File descriptor {} cannot be duplicated: {}.", fd_, errno_text("fcntl", error));
  }
  return take_fd(copy);
}

}  // namespace tenon
