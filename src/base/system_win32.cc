#include "base/system.h"

#include <fcntl.h>
#include <io.h>
#include <sys/stat.h>
#include <windows.h>

#include <cstdint>
#include <cstdlib>
#include <cstring>

#include "base/status.h"

namespace tenon {

int thread_number() { return static_cast<int>(::GetCurrentThreadId()); }

std::string thread_name() { return format("thread {}", thread_number()); }

std::string program_name() {
  char path[MAX_PATH] = "";
  if (::GetModuleFileNameA(nullptr, path, sizeof(path)) == 0) return "program";
  const std::string text = path;
  return text.substr(text.rfind('\\') + 1);
}

// Without a lock: the only library that writes a trace there is a plugin.
int create_locked_file(const std::string& path) {
  return ::_open(path.c_str(), _O_WRONLY | _O_CREAT | _O_TRUNC | _O_BINARY | _O_NOINHERIT, _S_IREAD | _S_IWRITE);
}

size_t page_bytes() {
  SYSTEM_INFO info;
  ::GetSystemInfo(&info);
  return info.dwPageSize;
}

size_t memory_bytes() {
  static const size_t size_bytes = [] {
    MEMORYSTATUSEX status{};
    status.dwLength = sizeof(status);
    return ::GlobalMemoryStatusEx(&status) != 0 ? static_cast<size_t>(status.ullTotalPageFile) : SIZE_MAX;
  }();
  return size_bytes;
}

// In the copy of the C runtime, where an empty value removes a variable.
void set_environment_variable(const char* name, const char* value) {
  (void)::_putenv_s(name, value != nullptr ? value : "");
}

std::vector<std::string> environment_names() {
  std::vector<std::string> names;
  for (char** entry = _environ; entry != nullptr && *entry != nullptr; ++entry)
    names.emplace_back(*entry, std::strcspn(*entry, "="));
  return names;
}

std::string library_at(const void* address) {
  HMODULE module = nullptr;
  char path[MAX_PATH] = "";
  constexpr DWORD kFlags = GET_MODULE_HANDLE_EX_FLAG_FROM_ADDRESS | GET_MODULE_HANDLE_EX_FLAG_UNCHANGED_REFCOUNT;
  if (::GetModuleHandleExA(kFlags, static_cast<const char*>(address), &module) == 0 ||
      ::GetModuleFileNameA(module, path, sizeof(path)) == 0)
    return "an unknown library";
  const std::string text = path;
  return text.substr(text.rfind('\\') + 1);
}

std::string errno_text(const char* call, int error) {
  char buffer[128] = "";
  (void)::strerror_s(buffer, sizeof(buffer), error);
  return format("{}: {} ({})", call, buffer, error);
}

}  // namespace tenon
