#include <windows.h>

#include "base/wide_text_win32.h"
#include "ep/cuda/driver/shared_library.h"

namespace tenon::cuda {

namespace {

// NVIDIA has no NCCL for Windows, so the last is found nowhere.
constexpr const char* kNames[] = {"nvcuda.dll", "nvrtc64_130_0.dll", "cublasLt64_13.dll", "cudnn64_9.dll",
                                  "nccl64_2.dll"};

// The folder that this code was loaded from, with a backslash at its end.
std::wstring own_folder() {
  HMODULE module = nullptr;
  std::wstring path(32768, L'\0');
  if (::GetModuleHandleExW(GET_MODULE_HANDLE_EX_FLAG_FROM_ADDRESS | GET_MODULE_HANDLE_EX_FLAG_UNCHANGED_REFCOUNT,
                           reinterpret_cast<LPCWSTR>(&own_folder), &module) == 0)
    return L"";
  path.resize(::GetModuleFileNameW(module, path.data(), static_cast<DWORD>(path.size())));
  const size_t slash = path.find_last_of(L'\\');
  return slash == std::wstring::npos ? L"" : path.substr(0, slash + 1);
}

}  // namespace

Result<SharedLibrary> SharedLibrary::open(LibraryKind kind) {
  const std::string name = kNames[static_cast<size_t>(kind)];
  // The application's folder, the system's and the search path; never the current folder.
  HMODULE module = ::LoadLibraryExW(wide_text(name).c_str(), nullptr, LOAD_LIBRARY_SEARCH_DEFAULT_DIRS);
  DWORD error = ::GetLastError();
  if (module == nullptr && kind != LibraryKind::kDriver) {
    // Beside the plugin, where a package puts them; what the library needs itself lies there too.
    module = ::LoadLibraryExW((own_folder() + wide_text(name)).c_str(), nullptr,
                              LOAD_LIBRARY_SEARCH_DLL_LOAD_DIR | LOAD_LIBRARY_SEARCH_DEFAULT_DIRS);
  }
  if (module == nullptr && kind != LibraryKind::kDriver) {
    // An installed toolkit puts its folder into PATH.
    module = ::LoadLibraryW(wide_text(name).c_str());
    error = ::GetLastError();
  }
  if (module == nullptr) return not_found("{} does not load: error {}.", name, error);
  return SharedLibrary(reinterpret_cast<void*>(module), name);
}

void* SharedLibrary::symbol(const char* name) const {
  return reinterpret_cast<void*>(::GetProcAddress(reinterpret_cast<HMODULE>(handle_), name));
}

}  // namespace tenon::cuda
