#include "interop/process_watch_posix.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace tenon {

namespace {

// Field 22 of /proc/PID/stat: clock ticks from boot to the start of the process; 0 when it cannot be read.
uint64_t start_time(int pid) {
  char path[32];
  std::snprintf(path, sizeof(path), "/proc/%d/stat", pid);
  const int fd = ::open(path, O_RDONLY | O_CLOEXEC);
  if (fd < 0) return 0;
  char text[1024];
  const ssize_t size = ::read(fd, text, sizeof(text) - 1);
  ::close(fd);
  if (size <= 0) return 0;
  text[size] = '\0';
  // The second field is the program's name in brackets and may itself hold spaces and brackets.
  const char* field = std::strrchr(text, ')');
  for (int i = 2; field != nullptr && i < 22; ++i) field = std::strchr(field + 1, ' ');
  return field == nullptr ? 0 : std::strtoull(field + 1, nullptr, 10);
}

}  // namespace

ProcessId ProcessId::self() {
  ProcessId id;
  const int pid = ::getpid();
  id.packed = static_cast<uint32_t>(pid) | (start_time(pid) << 32);
  struct stat info;
  if (::stat("/proc/self/ns/pid", &info) == 0) id.pid_namespace = static_cast<uint32_t>(info.st_ino);
  return id;
}

bool ProcessWatch::alive(const ProcessId& process) {
  if (process.pid() <= 0) return true;
  if (!(watched_ == process && pidfd_.valid())) {
    static const uint32_t own_namespace = ProcessId::self().pid_namespace;
    if (process.pid_namespace == 0 || process.pid_namespace != own_namespace) return true;
    const int fd = static_cast<int>(::syscall(SYS_pidfd_open, process.pid(), 0));
    if (fd < 0) return errno != ESRCH && errno != EINVAL;
    pidfd_ = OwnedHandle::take_fd(fd);
    watched_ = process;
    // Looked at after the pidfd was taken: if it matches, the pidfd is of the right process.
    const uint64_t started = start_time(process.pid()) << 32;
    const uint64_t expected = process.packed & ~uint64_t{0xffffffffu};
    if (started != 0 && expected != 0 && started != expected) {
      pidfd_.reset();
      return false;
    }
  }
  pollfd exited = {.fd = pidfd_.fd(), .events = POLLIN, .revents = 0};
  return ::poll(&exited, 1, 0) <= 0;
}

}  // namespace tenon
