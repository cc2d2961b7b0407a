#include <windows.h>

#include <filesystem>

#include "base/wide_text_win32.h"
#include "graph/paths.h"

namespace tenon {

Status file_error(const char* call, const std::string& path, int error) {
  if (error == ERROR_FILE_NOT_FOUND || error == ERROR_PATH_NOT_FOUND || error == ERROR_INVALID_NAME)
    return not_found("There is no file \"{}\" ({}: error {}).", path, call, error);
  if (error == ERROR_NOT_ENOUGH_MEMORY || error == ERROR_TOO_MANY_OPEN_FILES || error == ERROR_COMMITMENT_LIMIT)
    return resource_exhausted("The file \"{}\" cannot be read: {}: error {}.", path, call, error);
  return invalid_argument("The file \"{}\" cannot be read: {}: error {}.", path, call, error);
}

Result<std::string> real_path(const std::string& path) {
  // FILE_FLAG_BACKUP_SEMANTICS: folders too.
  const HANDLE file = ::CreateFileW(wide_text(path).c_str(), 0, FILE_SHARE_READ | FILE_SHARE_WRITE | FILE_SHARE_DELETE,
                                    nullptr, OPEN_EXISTING, FILE_FLAG_BACKUP_SEMANTICS, nullptr);
  if (file == INVALID_HANDLE_VALUE) return file_error("CreateFile", path, static_cast<int>(::GetLastError()));
  std::wstring name(32768, L'\0');
  const DWORD length = ::GetFinalPathNameByHandleW(file, name.data(), static_cast<DWORD>(name.size()), 0);
  const DWORD error = ::GetLastError();
  ::CloseHandle(file);
  if (length == 0 || length >= name.size())
    return file_error("GetFinalPathNameByHandle", path, static_cast<int>(error));
  name.resize(length);
  return narrow_text(name);
}

bool stays_below(std::string_view path) {
  if (path.find(':') != std::string_view::npos || path.starts_with('/') || path.starts_with('\\')) return false;
  while (!path.empty()) {
    const size_t slash = path.find_first_of("/\\");
    std::string_view part = path.substr(0, slash);
    // The system drops trailing spaces and dots: "..  " and ".. ." are the parent folder too.
    const size_t dots = part.find_first_not_of(". ");
    if (part.starts_with("..") && dots == std::string_view::npos) return false;
    path = slash == std::string_view::npos ? std::string_view() : path.substr(slash + 1);
  }
  return true;
}

std::string join_paths(const std::string& folder, std::string_view path) {
  // A real path begins with \\?\, where only the backslash separates and "." is a name.
  std::filesystem::path below = std::filesystem::path(wide_text(std::string(path))).lexically_normal();
  std::string joined = folder.ends_with('\\') ? folder : folder + "\\";
  joined += narrow_text(below.make_preferred().wstring());
  return joined;
}

}  // namespace tenon
