#include <dlfcn.h>

#include "ep/cuda/driver/shared_library.h"

namespace tenon::cuda {

namespace {

constexpr const char* kNames[] = {"libcuda.so.1", "libnvrtc.so.13", "libcublasLt.so.13", "libcudnn.so.9",
                                  "libnccl.so.2"};
// Where an installed toolkit keeps its libraries when the loader's cache does not know them. What PyPI's packages
// install is found through the plugin's own run path (CMakeLists.txt).
constexpr const char* kFolders[] = {"", "/usr/local/cuda/lib64/", "/usr/local/cuda/lib/", "/usr/local/nvidia/lib64/"};

}  // namespace

Result<SharedLibrary> SharedLibrary::open(LibraryKind kind) {
  const char* const name = kNames[static_cast<size_t>(kind)];
  std::string reason = name;
  for (const char* folder : kFolders) {
    const std::string path = std::string(folder) + name;
    if (void* handle = ::dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL); handle != nullptr)
      return SharedLibrary(handle, path);
    const char* error = ::dlerror();
    if (*folder == '\0' && error != nullptr) reason = error;
    if (kind == LibraryKind::kDriver) break;
  }
  return not_found("{}.", reason);
}

void* SharedLibrary::symbol(const char* name) const { return ::dlsym(handle_, name); }

}  // namespace tenon::cuda
