// A socket between two processes that carries messages and file descriptors.
//
// Threads: one reader and one writer at a time.
#pragma once

#include <tenon/external_memory.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <type_traits>
#include <utility>
#include <vector>

#include "demo/status.h"

namespace tenon::demo {

struct Received {
  uint32_t kind = 0;
  std::vector<std::byte> bytes;
  std::vector<OwnedHandle> handles;

  // The message, if it is a T; else kInternal.
  template <typename T>
  Result<T> as() const {
    static_assert(std::is_trivially_copyable_v<T>);
    if (kind != T::kKind || bytes.size() != sizeof(T))
      return internal_error("A message of kind {} and {} bytes arrives where kind {} and {} bytes are expected.", kind,
                            bytes.size(), T::kKind, sizeof(T));
    T message;
    std::memcpy(static_cast<void*>(&message), bytes.data(), sizeof message);
    return message;
  }
};

class Channel {
 public:
  static constexpr size_t kMaxHandles = 16;

  static Result<std::pair<Channel, Channel>> create_pair();
  explicit Channel(OwnedHandle socket) : socket_(std::move(socket)) {}

  template <typename T>
  Status send(const T& message, std::span<const int> fds = {}) {
    static_assert(std::is_trivially_copyable_v<T>);
    return send_bytes(T::kKind, &message, sizeof message, fds);
  }
  // kDeviceLost when the other side has closed its end, kTimeout when nothing comes within `timeout_ns`.
  Result<Received> receive(int64_t timeout_ns);
  // True once the other side has closed its end and everything was read.
  bool peer_gone() const;
  int fd() const { return socket_.fd(); }
  OwnedHandle& handle() { return socket_; }

 private:
  Status send_bytes(uint32_t kind, const void* data, size_t size_bytes, std::span<const int> fds);
  OwnedHandle socket_;
};

}  // namespace tenon::demo
