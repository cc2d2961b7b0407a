// Shared libraries that this program opens: library_posix.cc and library_win32.cc. They stay loaded.
#pragma once

#include <tenon/onnxruntime_c_api.h>

#include <string>

#include "conformance/status.h"

namespace tenon::conformance {

// Errors: kNotFound with what the loader said.
Result<void*> open_library(const std::string& path);
// Null when it is not loaded. Without a folder in `path`: any library of that name.
void* loaded_library(const std::string& path);
// Null when there is no such symbol.
void* library_symbol(void* library, const char* name);

// A path as the C ABI takes it on this system.
std::basic_string<ORTCHAR_T> abi_path(const std::string& path);

}  // namespace tenon::conformance
