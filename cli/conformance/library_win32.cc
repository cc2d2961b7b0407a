#include <windows.h>

#include "base/wide_text_win32.h"
#include "cli/conformance/library.h"

namespace tenon::conformance {

Result<void*> open_library(const std::string& path) {
  // What a library needs may lie beside it.
  const HMODULE library = ::LoadLibraryExW(wide_text(path).c_str(), nullptr, LOAD_WITH_ALTERED_SEARCH_PATH);
  if (library == nullptr) return not_found("{} does not load: error {}.", path, ::GetLastError());
  return reinterpret_cast<void*>(library);
}

void* loaded_library(const std::string& path) {
  return reinterpret_cast<void*>(::GetModuleHandleW(wide_text(path).c_str()));
}

void* library_symbol(void* library, const char* name) {
  return reinterpret_cast<void*>(::GetProcAddress(reinterpret_cast<HMODULE>(library), name));
}

std::basic_string<ORTCHAR_T> abi_path(const std::string& path) { return wide_text(path); }

}  // namespace tenon::conformance
