#include <windows.h>

#include <filesystem>

#include "base/wide_text_win32.h"
#include "cli/conformance/library.h"

namespace tenon::conformance {

namespace {

// The loader wants the system's separators, and a whole path to look beside the library for what it needs.
std::wstring whole_path(const std::string& path) {
  std::error_code error;
  std::filesystem::path whole = std::filesystem::absolute(std::filesystem::path(wide_text(path)), error);
  return (error ? std::filesystem::path(wide_text(path)) : whole).make_preferred().wstring();
}

}  // namespace

Result<void*> open_library(const std::string& path) {
  const HMODULE library = ::LoadLibraryExW(whole_path(path).c_str(), nullptr, LOAD_WITH_ALTERED_SEARCH_PATH);
  if (library == nullptr) return not_found("{} does not load: error {}.", path, ::GetLastError());
  return reinterpret_cast<void*>(library);
}

void* loaded_library(const std::string& path) {
  return reinterpret_cast<void*>(::GetModuleHandleW(wide_text(path).c_str()));
}

void* library_symbol(void* library, const char* name) {
  return reinterpret_cast<void*>(::GetProcAddress(reinterpret_cast<HMODULE>(library), name));
}

std::basic_string<ORTCHAR_T> abi_path(const std::string& path) { return whole_path(path); }

}  // namespace tenon::conformance
