#include "ep/cuda/import_memory.h"

namespace tenon::cuda {

const HandleSystem kThisSystem = HandleSystem::kWindows;

Status check_fd_size(int fd, size_t) {
  return unsupported("native_handle ({}) is a file descriptor, and this system's driver takes none.", fd);
}

}  // namespace tenon::cuda
