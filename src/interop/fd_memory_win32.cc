#include "base/status.h"
#include "interop/fd_memory.h"

namespace tenon {

const bool kFdsShareMemory = false;

namespace {

Status no_fds(int fd, const std::string& what) {
  return unsupported("File descriptor {} of {} shares no memory: this system has NT handles for that.", fd, what);
}

}  // namespace

Result<FdObject> query_fd_object(int fd, const std::string& what) { return no_fds(fd, what); }

Result<std::shared_ptr<ExternalMemory>> map_fd(const ExternalHandle& handle, const ExternalMemoryDescriptor&,
                                               const std::string& what) {
  return no_fds(handle.fd, what);
}

Result<size_t> find_opaque_fd_offset(int fd, const void*, size_t) { return no_fds(fd, "the probe allocation"); }

}  // namespace tenon
