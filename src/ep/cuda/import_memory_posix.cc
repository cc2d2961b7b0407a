#include <sys/stat.h>

#include <cerrno>

#include "ep/cuda/import_memory.h"

namespace tenon::cuda {

const HandleSystem kThisSystem = HandleSystem::kPosix;

Status check_fd_size(int fd, size_t end) {
  struct stat about;
  TENON_INVALID_IF(::fstat(fd, &about) != 0, "native_handle ({}) is no open file descriptor: {}.", fd,
                   errno_text("fstat", errno));
  TENON_INVALID_IF(S_ISREG(about.st_mode) && static_cast<uint64_t>(about.st_size) < end,
                   "offset_bytes plus size_bytes ({}) exceed the object's {} bytes.", end, about.st_size);
  return Status();
}

}  // namespace tenon::cuda
