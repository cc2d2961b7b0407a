// Paths of a model's files, by the rules of the system: paths_posix.cc and paths_win32.cc.
#pragma once

#include <string>
#include <string_view>

#include "base/status.h"

namespace tenon {

// Absolute, with every link resolved. Errors: kNotFound when there is no such file.
Result<std::string> real_path(const std::string& path);
// False for an absolute path, for one with ".." in it, and for what names a drive, a stream or a device.
bool stays_below(std::string_view path);
// `folder` is a real_path(). An empty `path` gives what the real paths of all of its files begin with.
std::string join_paths(const std::string& folder, std::string_view path);
// The status of a failed call on a file.
Status file_error(const char* call, const std::string& path, int error);

}  // namespace tenon
