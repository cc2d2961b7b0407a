#include "other_program.h"

#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <tenon/fence.h>
#include <unistd.h>

#include <cstdio>
#include <cstring>
#include <functional>

#ifdef TENON_HAS_VULKAN
#include "../interop/vulkan_program.h"
#endif

namespace tenon::test {

namespace {

union Control {
  cmsghdr header;
  char bytes[CMSG_SPACE(sizeof(int))];
};

bool send(int socket, int fd) {
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
  header->cmsg_len = CMSG_LEN(sizeof(fd));
  std::memcpy(CMSG_DATA(header), &fd, sizeof(fd));
  return ::sendmsg(socket, &message, MSG_NOSIGNAL) == 1;
}

Result<OwnedHandle> receive(int socket) {
  char byte = 0;
  iovec data = {.iov_base = &byte, .iov_len = 1};
  Control control = {};
  msghdr message = {};
  message.msg_iov = &data;
  message.msg_iovlen = 1;
  message.msg_control = control.bytes;
  message.msg_controllen = sizeof(control.bytes);
  int fd = -1;
  if (::recvmsg(socket, &message, MSG_CMSG_CLOEXEC) != 1 || CMSG_FIRSTHDR(&message) == nullptr)
    return device_error("The other program sent no timeline.");
  std::memcpy(&fd, CMSG_DATA(CMSG_FIRSTHDR(&message)), sizeof(fd));
  return OwnedHandle::take_fd(fd);
}

int serve(int socket, int fd, const std::function<Status(uint64_t)>& signal) {
  if (!send(socket, fd)) return 1;
  for (uint8_t value = 0; ::read(socket, &value, 1) == 1;)
    if (!signal(value).ok()) return 1;
  return 0;
}

int be_shared(int socket) {
  auto timeline = SharedTimeline::create("other program");
  if (!timeline.ok()) return 1;
  return serve(socket, (*timeline)->fd(), [&](uint64_t value) { return (*timeline)->signal(value); });
}

int be_vulkan(int socket) {
#ifdef TENON_HAS_VULKAN
  std::string why_not;
  auto vulkan = VulkanProgram::create(&why_not, VulkanProgram::Runs::kOnGpu);
  if (vulkan == nullptr) {
    std::printf("no Vulkan: %s\n", why_not.c_str());
    std::fflush(stdout);
    return 1;
  }
  const VkSemaphore semaphore = vulkan->make_timeline(0);
  const TimelineCallbacks callbacks = vulkan->callbacks(semaphore);
  OwnedHandle fd = vulkan->export_fd(semaphore);
  return serve(socket, fd.fd(), callbacks.signal);
#else
  (void)socket;
  return 1;
#endif
}

}  // namespace

Result<std::unique_ptr<OtherProgram>> OtherProgram::start(bool vulkan) {
  int sockets[2];
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, sockets) != 0) return resource_exhausted("No socket.");
  const pid_t pid = ::fork();
  if (pid < 0) return resource_exhausted("No process.");
  if (pid == 0) (void)::close(sockets[0]);  // so that it ends with us
  if (pid == 0) ::_exit(vulkan ? be_vulkan(sockets[1]) : be_shared(sockets[1]));
  (void)::close(sockets[1]);
  std::unique_ptr<OtherProgram> program(new OtherProgram(pid, sockets[0]));
  TENON_TRY_ASSIGN(program->timeline_, receive(sockets[0]));
  return program;
}

void OtherProgram::signal(uint8_t value) { (void)!::write(socket_, &value, 1); }

void OtherProgram::kill() {
  if (pid_ > 0) {
    (void)::kill(pid_, SIGKILL);
    (void)::waitpid(pid_, nullptr, 0);
  }
  pid_ = -1;
}

}  // namespace tenon::test
