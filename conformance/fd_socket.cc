#include "conformance/fd_socket.h"

#include <sys/socket.h>

#include <cerrno>
#include <cstring>

namespace tenon::conformance {

namespace {

// A message of one byte with room for file descriptors.
struct Message {
  Message() {
    header.msg_iov = &data;
    header.msg_iovlen = 1;
    header.msg_control = control;
    header.msg_controllen = sizeof(control);
  }
  Message(const Message&) = delete;
  Message& operator=(const Message&) = delete;

  char byte = 0;
  iovec data = {.iov_base = &byte, .iov_len = 1};
  alignas(cmsghdr) char control[CMSG_SPACE(kMaxFds * sizeof(int))] = {};
  msghdr header = {};
};

}  // namespace

Result<std::vector<OwnedHandle>> make_socket_pair() {
  int sockets[2];
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, sockets) != 0)
    return resource_exhausted("A socket cannot be made: {}.", errno_text("socketpair", errno));
  std::vector<OwnedHandle> pair;
  for (const int socket : sockets) pair.push_back(OwnedHandle::take_fd(socket));
  return pair;
}

Status send_fds(int socket, std::span<const int> fds) {
  if (fds.empty() || fds.size() > kMaxFds)
    return internal_error("A message carries 1 to {} descriptors, not {}.", kMaxFds, fds.size());
  Message message;
  message.header.msg_controllen = CMSG_SPACE(fds.size_bytes());
  cmsghdr* const header = CMSG_FIRSTHDR(&message.header);
  header->cmsg_level = SOL_SOCKET;
  header->cmsg_type = SCM_RIGHTS;
  header->cmsg_len = CMSG_LEN(fds.size_bytes());
  std::memcpy(CMSG_DATA(header), fds.data(), fds.size_bytes());
  if (::sendmsg(socket, &message.header, MSG_NOSIGNAL) != 1) return device_error("{}", errno_text("sendmsg", errno));
  return Status();
}

Result<std::vector<OwnedHandle>> receive_fds(int socket, size_t count) {
  Message message;
  if (::recvmsg(socket, &message.header, MSG_CMSG_CLOEXEC) != 1)
    return device_error("The other process sends nothing before it ends.");
  std::vector<OwnedHandle> fds;
  const cmsghdr* const header = CMSG_FIRSTHDR(&message.header);
  if (header != nullptr && header->cmsg_type == SCM_RIGHTS)
    for (size_t offset = 0; CMSG_LEN(offset + sizeof(int)) <= header->cmsg_len; offset += sizeof(int)) {
      int fd = -1;
      std::memcpy(&fd, CMSG_DATA(header) + offset, sizeof(fd));
      fds.push_back(OwnedHandle::take_fd(fd));
    }
  if (fds.size() != count)
    return device_error("The other process sends {} file descriptors; {} are expected.", fds.size(), count);
  return fds;
}

}  // namespace tenon::conformance
