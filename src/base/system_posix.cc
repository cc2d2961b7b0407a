#include "base/system.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <pthread.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <sys/sysinfo.h>
#include <unistd.h>  // environ, with _GNU_SOURCE

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "base/status.h"

namespace tenon {

int thread_number() { return ::gettid(); }

std::string thread_name() {
  char name[16] = "";
  if (::pthread_getname_np(::pthread_self(), name, sizeof(name)) != 0) return "thread";
  return ::gettid() == ::getpid() ? format("{} (main)", name) : name;
}

std::string program_name() { return program_invocation_short_name; }

int create_locked_file(const std::string& path) {
  const int fd = ::open(path.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0644);
  if (fd < 0) return -1;
  // Some files know no lock (pipes, network folders), and some no length (terminals): they are written all the same.
  if (::flock(fd, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK) {
    (void)::close(fd);
    errno = EWOULDBLOCK;
    return -1;
  }
  (void)!::ftruncate(fd, 0);
  return fd;
}

size_t page_bytes() {
  static const size_t size_bytes = ::sysconf(_SC_PAGESIZE);
  return size_bytes;
}

namespace {

// The number in a file of /sys/fs/cgroup; SIZE_MAX for "max" or where there is none.
size_t cgroup_limit(const char* path) {
  size_t limit = SIZE_MAX;
  if (FILE* file = std::fopen(path, "re")) {
    unsigned long long value = 0;
    if (std::fscanf(file, "%llu", &value) == 1) limit = value;
    (void)std::fclose(file);
  }
  return limit;
}

}  // namespace

size_t memory_bytes() {
  static const size_t size_bytes = [] {
    size_t least = SIZE_MAX;
    struct sysinfo info;
    if (::sysinfo(&info) == 0) least = (size_t{info.totalram} + info.totalswap) * info.mem_unit;
    struct rlimit limit;
    if (::getrlimit(RLIMIT_AS, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY)
      least = std::min<size_t>(least, limit.rlim_cur);
    for (const char* path : {"/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"})
      least = std::min(least, cgroup_limit(path));
    return least;
  }();
  return size_bytes;
}

void set_environment_variable(const char* name, const char* value) {
  if (value == nullptr) {
    (void)::unsetenv(name);
  } else {
    (void)::setenv(name, value, 1);
  }
}

std::vector<std::string> environment_names() {
  std::vector<std::string> names;
  for (char** entry = environ; entry != nullptr && *entry != nullptr; ++entry)
    names.emplace_back(*entry, std::strcspn(*entry, "="));
  return names;
}

std::string library_at(const void* address) {
  Dl_info info = {};
  if (::dladdr(address, &info) == 0 || info.dli_fname == nullptr) return "an unknown library";
  const std::string path = info.dli_fname;
  return path.substr(path.rfind('/') + 1);
}

std::string errno_text(const char* call, int error) {
  char buffer[128];
  // GNU strerror_r may return a static string instead of filling the buffer.
  const char* text = ::strerror_r(error, buffer, sizeof(buffer));
  return format("{}: {} ({})", call, text, error);
}

}  // namespace tenon
