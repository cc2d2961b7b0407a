#include "other_program.h"

#include <signal.h>
#include <sys/wait.h>
#include <tenon/fence.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <functional>
#include <span>
#include <utility>
#include <vector>

#include "conformance/fd_socket.h"

#ifdef TENON_HAS_VULKAN
#include "../interop/vulkan_program.h"
#endif

namespace tenon::test {

namespace {

int serve(int socket, int fd, const std::function<Status(uint64_t)>& signal) {
  if (!conformance::send_fds(socket, std::span(&fd, 1)).ok()) return 1;
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
  TENON_TRY_ASSIGN(std::vector<OwnedHandle> sockets, conformance::make_socket_pair());
  const pid_t pid = ::fork();
  if (pid < 0) return resource_exhausted("A process cannot be started: {}.", errno_text("fork", errno));
  if (pid == 0) sockets[0].reset();  // so that it ends with us
  if (pid == 0) ::_exit(vulkan ? be_vulkan(sockets[1].fd()) : be_shared(sockets[1].fd()));
  std::unique_ptr<OtherProgram> program(new OtherProgram(pid, std::move(sockets[0])));
  sockets[1].reset();
  TENON_TRY_ASSIGN(std::vector<OwnedHandle> timeline, conformance::receive_fds(program->socket_.fd(), 1));
  program->timeline_ = std::move(timeline[0]);
  return program;
}

void OtherProgram::signal(uint8_t value) { (void)!::write(socket_.fd(), &value, 1); }

void OtherProgram::kill() {
  if (pid_ > 0) {
    (void)::kill(pid_, SIGKILL);
    (void)::waitpid(pid_, nullptr, 0);
  }
  pid_ = -1;
}

}  // namespace tenon::test
