#include <tenon/external_memory.h>

#include <utility>

namespace tenon {

OwnedHandle OwnedHandle::take_fd(int fd) {
  OwnedHandle handle;
  handle.fd_ = fd < 0 ? -1 : fd;
  return handle;
}

OwnedHandle OwnedHandle::borrow_pointer(void* pointer) {
  OwnedHandle handle;
  handle.pointer_ = pointer;
  return handle;
}

OwnedHandle::OwnedHandle(OwnedHandle&& other) noexcept
    : fd_(std::exchange(other.fd_, -1)), pointer_(std::exchange(other.pointer_, nullptr)) {}

OwnedHandle& OwnedHandle::operator=(OwnedHandle&& other) noexcept {
  OwnedHandle taken(std::move(other));
  std::swap(fd_, taken.fd_);
  std::swap(pointer_, taken.pointer_);
  return *this;
}

OwnedHandle::~OwnedHandle() { reset(); }

int OwnedHandle::release_fd() { return std::exchange(fd_, -1); }

Result<OwnedHandle> OwnedHandle::duplicate_fd(int fd) {
  OwnedHandle callers = take_fd(fd);
  Result<OwnedHandle> copy = callers.dup();
  (void)callers.release_fd();
  return copy;
}

}  // namespace tenon
