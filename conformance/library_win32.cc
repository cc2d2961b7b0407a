#include <windows.h>

#include <filesystem>

#include "conformance/library.h"

namespace tenon::conformance {

namespace {

std::filesystem::path utf8_path(const std::string& path) { return std::u8string(path.begin(), path.end()); }

// The loader wants the system's separators, and a whole path to look beside the library for what it needs.
std::wstring whole_path(const std::string& path) {
  std::error_code error;
  std::filesystem::path whole = std::filesystem::absolute(utf8_path(path), error);
  return (error ? utf8_path(path) : whole).make_preferred().wstring();
}

}  // namespace

Result<void*> open_library(const std::string& path) {
  const HMODULE library = ::LoadLibraryExW(whole_path(path).c_str(), nullptr, LOAD_WITH_ALTERED_SEARCH_PATH);
  if (library == nullptr) return not_found("{} does not load: error {}.", path, ::GetLastError());
  return reinterpret_cast<void*>(library);
}

void* loaded_library(const std::string& path) {
  return reinterpret_cast<void*>(::GetModuleHandleW(utf8_path(path).c_str()));
}

void* library_symbol(void* library, const char* name) {
  return reinterpret_cast<void*>(::GetProcAddress(reinterpret_cast<HMODULE>(library), name));
}

std::basic_string<ORTCHAR_T> abi_path(const std::string& path) { return whole_path(path); }

}  // namespace tenon::conformance
