// Sends file descriptors over a socket between two processes.
#pragma once

#include <tenon/external_memory.h>

#include <span>
#include <vector>

#include "conformance/status.h"

namespace tenon::conformance {

// Of a message.
inline constexpr size_t kMaxFds = 4;

// Ours first, then the other process's: a stream, closed on exec.
Result<std::vector<OwnedHandle>> make_socket_pair();
// In one message of one byte; the caller keeps its own.
Status send_fds(int socket, std::span<const int> fds);
// Waits for a message. Errors: kDeviceError when it has not exactly `count` of them, or the other end is closed.
Result<std::vector<OwnedHandle>> receive_fds(int socket, size_t count);

}  // namespace tenon::conformance
