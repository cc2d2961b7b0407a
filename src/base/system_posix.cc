#include "base/system.h"

#include <fcntl.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>

#include "base/status.h"

namespace tenon {

int thread_number() { return ::gettid(); }

int create_file(const std::string& path) {
  return ::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
}

size_t page_bytes() {
  static const auto size_bytes = static_cast<size_t>(::sysconf(_SC_PAGESIZE));
  return size_bytes;
}

void set_environment_variable(const char* name, const char* value) {
  if (value == nullptr) {
    (void)::unsetenv(name);
  } else {
    (void)::setenv(name, value, 1);
  }
}

std::string errno_text(const char* call, int error) {
  char buffer[128];
  // GNU strerror_r may return a static string instead of filling the buffer.
  const char* text = ::strerror_r(error, buffer, sizeof(buffer));
  return format("{}: {} ({})", call, text, error);
}

}  // namespace tenon
