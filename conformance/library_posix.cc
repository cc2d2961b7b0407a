#include <dlfcn.h>

#include "conformance/library.h"

namespace tenon::conformance {

Result<void*> open_library(const std::string& path) {
  void* const library = ::dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) return not_found("{}.", ::dlerror());
  return library;
}

void* loaded_library(const std::string& path) {
  void* const library = ::dlopen(path.c_str(), RTLD_NOW | RTLD_NOLOAD);
  if (library != nullptr) ::dlclose(library);  // whoever loaded it has a reference
  return library;
}

void* library_symbol(void* library, const char* name) { return ::dlsym(library, name); }

std::basic_string<ORTCHAR_T> abi_path(const std::string& path) { return path; }

}  // namespace tenon::conformance
