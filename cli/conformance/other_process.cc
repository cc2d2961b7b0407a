#include "cli/conformance/other_process.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>

namespace tenon::conformance {

namespace {

constexpr size_t kHandles = 2;

union Control {
  cmsghdr header;
  char bytes[CMSG_SPACE(kHandles * sizeof(int))];
};

bool send_handles(int socket, const int (&fds)[kHandles]) {
  char byte = 0;
  iovec data = {.iov_base = &byte, .iov_len = 1};
  Control control = {};
  msghdr message = {};
  message.msg_iov = &data;
  message.msg_iovlen = 1;
  message.msg_control = control.bytes;
  message.msg_controllen = sizeof(control.bytes);
  cmsghdr* header = CMSG_FIRSTHDR(&message);
  header->cmsg_level = SOL_SOCKET;
  header->cmsg_type = SCM_RIGHTS;
  header->cmsg_len = CMSG_LEN(sizeof(fds));
  std::memcpy(CMSG_DATA(header), fds, sizeof(fds));
  return ::sendmsg(socket, &message, MSG_NOSIGNAL) == 1;
}

bool receive_handles(int socket, int (&fds)[kHandles]) {
  char byte = 0;
  iovec data = {.iov_base = &byte, .iov_len = 1};
  Control control = {};
  msghdr message = {};
  message.msg_iov = &data;
  message.msg_iovlen = 1;
  message.msg_control = control.bytes;
  message.msg_controllen = sizeof(control.bytes);
  if (::recvmsg(socket, &message, MSG_CMSG_CLOEXEC) != 1) return false;
  const cmsghdr* header = CMSG_FIRSTHDR(&message);
  if (header == nullptr || header->cmsg_type != SCM_RIGHTS || header->cmsg_len != CMSG_LEN(sizeof(fds))) return false;
  std::memcpy(fds, CMSG_DATA(header), sizeof(fds));
  return true;
}

// The other process. Everything of its is made here: nothing is inherited but the socket.
bool run_other(int socket, size_t memory_bytes, const OtherProcess::Body& body) {
  const int fd = ::memfd_create("other-program", MFD_CLOEXEC | MFD_ALLOW_SEALING);
  if (fd < 0 || ::ftruncate(fd, static_cast<off_t>(memory_bytes)) != 0 ||
      ::fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW) != 0)
    return false;
  void* memory = ::mmap(nullptr, memory_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  auto timeline = SharedTimeline::create("other program");
  if (memory == MAP_FAILED || !timeline.ok()) return false;
  const int fds[kHandles] = {fd, (*timeline)->fd()};
  return send_handles(socket, fds) && body(static_cast<std::byte*>(memory), **timeline);
}

}  // namespace

Result<std::unique_ptr<OtherProcess>> OtherProcess::start(size_t memory_bytes, const Body& body) {
  int sockets[2];
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, sockets) != 0)
    return resource_exhausted("A socket cannot be made: {}.", errno_text("socketpair", errno));
  OwnedHandle ours = OwnedHandle::take_fd(sockets[0]), theirs = OwnedHandle::take_fd(sockets[1]);
  const pid_t pid = ::fork();
  if (pid < 0) return resource_exhausted("A process cannot be started: {}.", errno_text("fork", errno));
  if (pid == 0) ::_exit(run_other(theirs.fd(), memory_bytes, body) ? 0 : 1);
  theirs.reset();
  std::unique_ptr<OtherProcess> other(new OtherProcess());
  other->pid_ = pid;
  int fds[kHandles];
  if (!receive_handles(ours.fd(), fds)) return device_error("The other process sent no handles.");
  other->memory_ = OwnedHandle::take_fd(fds[0]);
  other->timeline_ = OwnedHandle::take_fd(fds[1]);
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
