#include "conformance/other_process.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <utility>
#include <vector>

#include "conformance/fd_socket.h"

namespace tenon::conformance {

namespace {

// The other process. Everything of its is made here: nothing is inherited but the socket.
bool run_other(int socket, size_t memory_bytes, const OtherProcess::Body& body) {
  const int fd = ::memfd_create("other-program", MFD_CLOEXEC | MFD_ALLOW_SEALING);
  if (fd < 0 || ::ftruncate(fd, static_cast<off_t>(memory_bytes)) != 0 ||
      ::fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW) != 0)
    return false;
  void* memory = ::mmap(nullptr, memory_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  auto timeline = SharedTimeline::create("other program");
  if (memory == MAP_FAILED || !timeline.ok()) return false;
  const int fds[] = {fd, (*timeline)->fd()};
  return send_fds(socket, fds).ok() && body(static_cast<std::byte*>(memory), **timeline);
}

}  // namespace

Result<std::unique_ptr<OtherProcess>> OtherProcess::start(size_t memory_bytes, const Body& body) {
  TENON_TRY_ASSIGN(std::vector<OwnedHandle> sockets, make_socket_pair());
  const pid_t pid = ::fork();
  if (pid < 0) return resource_exhausted("A process cannot be started: {}.", errno_text("fork", errno));
  if (pid == 0) ::_exit(run_other(sockets[1].fd(), memory_bytes, body) ? 0 : 1);
  sockets[1].reset();
  std::unique_ptr<OtherProcess> other(new OtherProcess());
  other->pid_ = pid;
  TENON_TRY_ASSIGN(std::vector<OwnedHandle> handles, receive_fds(sockets[0].fd(), 2));
  other->memory_ = std::move(handles[0]);
  other->timeline_ = std::move(handles[1]);
  return other;
}

OtherProcess::~OtherProcess() {
  kill();
  (void)succeeded();
}

void OtherProcess::kill() {
  if (pid_ > 0) ::kill(pid_, SIGKILL);
}

bool OtherProcess::succeeded() {
  if (pid_ < 0) return false;
  int status = 0;
  const bool ended = ::waitpid(pid_, &status, 0) == pid_;
  pid_ = -1;
  return ended && WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

}  // namespace tenon::conformance
