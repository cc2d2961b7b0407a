#include <cerrno>
#include <cstdlib>

#include "graph/paths.h"

namespace tenon {

Status file_error(const char* call, const std::string& path, int error) {
  if (error == ENOENT || error == ENOTDIR)
    return not_found("There is no file \"{}\" ({}).", path, errno_text(call, error));
  if (error == ENOMEM || error == EMFILE || error == ENFILE)
    return resource_exhausted("The file \"{}\" cannot be read: {}.", path, errno_text(call, error));
  return invalid_argument("The file \"{}\" cannot be read: {}.", path, errno_text(call, error));
}

Result<std::string> real_path(const std::string& path) {
  char* resolved = ::realpath(path.c_str(), nullptr);
  if (resolved == nullptr) return file_error("realpath", path, errno);
  std::string text(resolved);
  std::free(resolved);
  return text;
}

bool stays_below(std::string_view path) {
  if (path.starts_with('/')) return false;
  while (!path.empty()) {
    const size_t slash = path.find('/');
    if (path.substr(0, slash) == "..") return false;
    path = slash == std::string_view::npos ? std::string_view() : path.substr(slash + 1);
  }
  return true;
}

std::string join_paths(const std::string& folder, std::string_view path) {
  return (folder == "/" ? folder : folder + "/") + std::string(path);
}

}  // namespace tenon
