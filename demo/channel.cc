#include "demo/channel.h"

#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>

namespace tenon::demo {
namespace {

constexpr size_t kMaxMessageBytes = 64 << 10;

}  // namespace

Result<std::pair<Channel, Channel>> Channel::create_pair() {
  int fds[2];
  // Packets: a message arrives whole or not at all, so nothing has to be put together again.
  if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, fds) != 0)
    return resource_exhausted("{}", errno_text("socketpair", errno));
  return std::pair(Channel(OwnedHandle::take_fd(fds[0])), Channel(OwnedHandle::take_fd(fds[1])));
}

Status Channel::send_bytes(uint32_t kind, const void* data, size_t size_bytes, std::span<const int> fds) {
  if (fds.size() > kMaxHandles || size_bytes > kMaxMessageBytes)
    return internal_error("A message of {} bytes and {} handles is longer than {} and {}.", size_bytes, fds.size(),
                          kMaxMessageBytes, kMaxHandles);
  iovec parts[2] = {{&kind, sizeof kind}, {const_cast<void*>(data), size_bytes}};
  msghdr message{};
  message.msg_iov = parts;
  message.msg_iovlen = 2;
  alignas(cmsghdr) std::byte control[CMSG_SPACE(kMaxHandles * sizeof(int))] = {};
  if (!fds.empty()) {
    message.msg_control = control;
    message.msg_controllen = CMSG_SPACE(fds.size_bytes());
    cmsghdr* header = CMSG_FIRSTHDR(&message);
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(fds.size_bytes());
    std::memcpy(CMSG_DATA(header), fds.data(), fds.size_bytes());
  }
  ssize_t sent = -1;
  do {
    sent = sendmsg(socket_.fd(), &message, MSG_NOSIGNAL);
  } while (sent < 0 && errno == EINTR);
  if (sent >= 0) return {};
  if (errno == EPIPE || errno == ECONNRESET) return device_lost("The demo's other process has closed the connection.");
  return device_error("{}", errno_text("sendmsg", errno));
}

Result<Received> Channel::receive(int64_t timeout_ns) {
  pollfd ready{socket_.fd(), POLLIN, 0};
  const int timeout_ms = timeout_ns < 0 ? -1 : static_cast<int>(std::min<int64_t>(timeout_ns / 1'000'000, 1 << 30));
  int count = -1;
  do {
    count = poll(&ready, 1, timeout_ms);
  } while (count < 0 && errno == EINTR);
  if (count < 0) return device_error("{}", errno_text("poll", errno));
  if (count == 0) return timed_out("The demo's other process sends nothing within {} ms.", timeout_ms);

  Received received;
  received.bytes.resize(kMaxMessageBytes);
  iovec parts[2] = {{&received.kind, sizeof received.kind}, {received.bytes.data(), received.bytes.size()}};
  msghdr message{};
  message.msg_iov = parts;
  message.msg_iovlen = 2;
  alignas(cmsghdr) std::byte control[CMSG_SPACE(kMaxHandles * sizeof(int))] = {};
  message.msg_control = control;
  message.msg_controllen = sizeof control;
  ssize_t got = -1;
  do {
    got = recvmsg(socket_.fd(), &message, MSG_CMSG_CLOEXEC);
  } while (got < 0 && errno == EINTR);
  if (got == 0 || (got < 0 && errno == ECONNRESET))
    return device_lost("The demo's other process has closed the connection.");
  if (got < 0) return device_error("{}", errno_text("recvmsg", errno));
  for (cmsghdr* header = CMSG_FIRSTHDR(&message); header != nullptr; header = CMSG_NXTHDR(&message, header)) {
    if (header->cmsg_level != SOL_SOCKET || header->cmsg_type != SCM_RIGHTS) continue;
    const size_t handle_count = (header->cmsg_len - CMSG_LEN(0)) / sizeof(int);
    for (size_t i = 0; i < handle_count; ++i) {
      int fd = -1;
      std::memcpy(&fd, CMSG_DATA(header) + i * sizeof(int), sizeof fd);
      received.handles.push_back(OwnedHandle::take_fd(fd));
    }
  }
  if ((message.msg_flags & (MSG_TRUNC | MSG_CTRUNC)) != 0 || static_cast<size_t>(got) < sizeof received.kind)
    return internal_error("A message arrives cut off ({} bytes).", got);
  received.bytes.resize(static_cast<size_t>(got) - sizeof received.kind);
  return received;
}

bool Channel::peer_gone() const {
  pollfd state{socket_.fd(), POLLIN, 0};
  if (poll(&state, 1, 0) <= 0) return false;
  if ((state.revents & POLLIN) == 0) return (state.revents & (POLLHUP | POLLERR | POLLNVAL)) != 0;
  std::byte probe{};
  // A closed connection reads as an empty packet; a waiting message is left where it is.
  return recv(socket_.fd(), &probe, 1, MSG_PEEK | MSG_DONTWAIT) == 0;
}

}  // namespace tenon::demo
