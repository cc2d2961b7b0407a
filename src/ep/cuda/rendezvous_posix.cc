#include <fcntl.h>
#include <netdb.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <optional>
#include <thread>
#include <utility>

#include "base/format.h"
#include "ep/cuda/rendezvous.h"

namespace tenon::cuda {

namespace {

constexpr auto kBetweenTries = std::chrono::milliseconds(20);
constexpr int kPollMs = 50;
constexpr int kHelloMs = 1000;  // somebody who is no rank may connect, and say nothing
constexpr uint32_t kMagic = 0x544e5256;
constexpr uint32_t kLongestAnswer = 4096;

// Of a rank to rank 0.
struct Hello {
  uint32_t magic = kMagic;
  int32_t ranks = 0, rank = 0;
};
// Of rank 0: so many bytes follow, of the message or of a sentence that says why not.
struct Answer {
  uint32_t magic = kMagic;
  uint32_t refused = 0;
  uint32_t size = 0;
};

class Socket {
 public:
  Socket() = default;
  explicit Socket(int fd) : fd_(fd) {}
  Socket(Socket&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  Socket& operator=(Socket&& other) noexcept {
    std::swap(fd_, other.fd_);
    return *this;
  }
  ~Socket() {
    if (fd_ >= 0) ::close(fd_);
  }
  bool open() const { return fd_ >= 0; }
  int get() const { return fd_; }

  bool send(const void* data, size_t size) const {
    const auto* bytes = static_cast<const char*>(data);
    while (size > 0) {
      const ssize_t sent = ::send(fd_, bytes, size, MSG_NOSIGNAL);
      if (sent <= 0 && errno != EINTR) return false;
      if (sent > 0) bytes += sent, size -= static_cast<size_t>(sent);
    }
    return true;
  }
  // False at the other side's end, and after `timeout_ms` without a byte.
  bool receive(void* data, size_t size, int timeout_ms) const {
    auto* bytes = static_cast<char*>(data);
    while (size > 0) {
      if (!readable(timeout_ms)) return false;
      const ssize_t got = ::recv(fd_, bytes, size, 0);
      if (got <= 0 && !(got < 0 && errno == EINTR)) return false;
      if (got > 0) bytes += got, size -= static_cast<size_t>(got);
    }
    return true;
  }
  bool readable(int timeout_ms) const {
    pollfd asked{.fd = fd_, .events = POLLIN, .revents = 0};
    return ::poll(&asked, 1, timeout_ms) > 0;
  }

 private:
  int fd_ = -1;
};

// The system's addresses of a place; a name may have several.
struct Address {
  int family = 0;
  sockaddr_storage bytes{};
  socklen_t size = 0;
  const sockaddr* get() const { return reinterpret_cast<const sockaddr*>(&bytes); }
  bool is_path() const { return family == AF_UNIX; }
};

Result<std::vector<Address>> addresses_of(const std::string& place) {
  if (place.find('/') != std::string::npos) {
    sockaddr_un path{};
    path.sun_family = AF_UNIX;
    TENON_INVALID_IF(place.size() >= sizeof(path.sun_path),
                     "Option \"collective_rendezvous\" is a path of {} characters; a socket's has {} at most.",
                     place.size(), sizeof(path.sun_path) - 1);
    std::memcpy(path.sun_path, place.c_str(), place.size() + 1);
    Address address{.family = AF_UNIX, .size = sizeof(path)};
    std::memcpy(&address.bytes, &path, sizeof(path));
    return std::vector<Address>{address};
  }
  const size_t colon = place.rfind(':');
  std::string host = place.substr(0, colon), port = colon == std::string::npos ? "" : place.substr(colon + 1);
  TENON_INVALID_IF(host.empty() || port.empty() || port.find_first_not_of("0123456789") != std::string::npos,
                   "Option \"collective_rendezvous\" is \"{}\", which is neither host:port nor a path.", place);
  if (host.size() > 2 && host.front() == '[' && host.back() == ']') host = host.substr(1, host.size() - 2);
  addrinfo wanted{};
  wanted.ai_family = AF_UNSPEC;
  wanted.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  if (const int failed = ::getaddrinfo(host.c_str(), port.c_str(), &wanted, &found); failed != 0)
    return invalid_argument("The ranks' meeting place \"{}\" has no address: {}.", place, ::gai_strerror(failed));
  std::vector<Address> addresses;
  for (const addrinfo* one = found; one != nullptr; one = one->ai_next) {
    Address address{.family = one->ai_family, .size = one->ai_addrlen};
    std::memcpy(&address.bytes, one->ai_addr, one->ai_addrlen);
    addresses.push_back(address);
  }
  ::freeaddrinfo(found);
  return addresses;
}

Socket connect_to(const Address& address) {
  Socket socket(::socket(address.family, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (!socket.open() || ::connect(socket.get(), address.get(), address.size) != 0) return Socket();
  return socket;
}

// Listens at the first of the addresses that this machine has; else the number of the error.
std::pair<Socket, int> listen_at(const std::vector<Address>& addresses, int ranks) {
  int error = 0;
  for (const Address& address : addresses) {
    Socket socket(::socket(address.family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    const int again = 1;
    if (socket.open() && !address.is_path())
      (void)::setsockopt(socket.get(), SOL_SOCKET, SO_REUSEADDR, &again, sizeof(again));
    if (socket.open() && ::bind(socket.get(), address.get(), address.size) == 0 && ::listen(socket.get(), ranks) == 0)
      return {std::move(socket), 0};
    error = errno;
    if (error == EADDRINUSE) break;
  }
  return {Socket(), error};
}

// Takes the socket's file away again. A process that was killed leaves its own behind.
class PathOwner {
 public:
  explicit PathOwner(std::string path) : path_(std::move(path)) {}
  PathOwner(const PathOwner&) = delete;
  PathOwner& operator=(const PathOwner&) = delete;
  ~PathOwner() {
    if (!path_.empty()) (void)::unlink(path_.c_str());
  }

 private:
  const std::string path_;
};

}  // namespace

Status Rendezvous::meet(std::vector<char>& bytes) { return options_.rank == 0 ? give(bytes) : receive(bytes); }

Status Rendezvous::give(const std::vector<char>& bytes) {
  const std::string& place = options_.meeting_place;
  TENON_TRY_ASSIGN(const std::vector<Address> addresses, addresses_of(place));
  const bool is_path = addresses.front().is_path();
  Socket listener;
  for (;;) {
    auto [socket, error] = listen_at(addresses, options_.ranks);
    listener = std::move(socket);
    if (listener.open()) break;
    if (error != EADDRINUSE)
      return make_status(StatusCode::kDeviceError, "Rank 0 cannot listen at {}: {}.", place, errno_text("bind", error));
    // Another session of this process may be meeting its ranks here, which ends.
    if (is_path && !connect_to(addresses.front()).open()) (void)::unlink(place.c_str());
    *missing_.lock() = format("Rank 0 cannot listen at {}, which is in use.", place);
    if (stopped_) return cancelled("The ranks meet no more.");
    std::this_thread::sleep_for(kBetweenTries);
  }
  const PathOwner owner(is_path ? place : "");
  std::vector<Socket> peers(static_cast<size_t>(options_.ranks));
  const auto refuse = [](const Socket& peer, const std::string& reason) {
    const Answer answer{.refused = 1, .size = static_cast<uint32_t>(reason.size())};
    if (peer.send(&answer, sizeof(answer))) (void)peer.send(reason.data(), reason.size());
  };
  for (;;) {
    std::vector<int> missing;
    for (int rank = 1; rank < options_.ranks; ++rank) {
      Socket& peer = peers[static_cast<size_t>(rank)];
      // Nobody speaks a second time, so what can be read is the end of a rank.
      if (peer.open() && peer.readable(0)) peer = Socket();
      if (!peer.open()) missing.push_back(rank);
    }
    *missing_.lock() = missing.empty()
                           ? ""
                           : format("{} {} of {} {} not come to {}.", missing.size() == 1 ? "Rank" : "Ranks",
                                    listed_ranks(missing), options_.ranks, missing.size() == 1 ? "has" : "have", place);
    if (missing.empty()) break;
    if (stopped_) {
      for (const Socket& peer : peers)
        if (peer.open()) refuse(peer, "Rank 0 has given up. " + who_is_missing());
      return cancelled("The ranks meet no more.");
    }
    if (!listener.readable(kPollMs)) continue;
    Socket peer(::accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC));
    Hello hello;
    if (!peer.open() || !peer.receive(&hello, sizeof(hello), kHelloMs) || hello.magic != kMagic) continue;
    if (hello.ranks != options_.ranks) {
      const std::string reason =
          format("Rank {} is one of {} ranks, and rank 0 one of {}.", hello.rank, hello.ranks, options_.ranks);
      refuse(peer, reason);
      for (const Socket& other : peers)
        if (other.open()) refuse(other, reason);
      return invalid_argument("{}", reason);
    }
    if (hello.rank < 1 || hello.rank >= options_.ranks || peers[static_cast<size_t>(hello.rank)].open()) {
      refuse(peer, format("There is a rank {} of {} already.", hello.rank, options_.ranks));
      continue;
    }
    peers[static_cast<size_t>(hello.rank)] = std::move(peer);
  }
  const Answer answer{.size = static_cast<uint32_t>(bytes.size())};
  for (int rank = 1; rank < options_.ranks; ++rank) {
    const Socket& peer = peers[static_cast<size_t>(rank)];
    if (!peer.send(&answer, sizeof(answer)) || !peer.send(bytes.data(), bytes.size()))
      return device_error("Rank {} of {} has come to {} and is gone.", rank, options_.ranks, place);
  }
  return Status();
}

Status Rendezvous::receive(std::vector<char>& bytes) {
  const std::string& place = options_.meeting_place;
  TENON_TRY_ASSIGN(const std::vector<Address> addresses, addresses_of(place));
  const Hello hello{.ranks = options_.ranks, .rank = options_.rank};
  for (; !stopped_; std::this_thread::sleep_for(kBetweenTries)) {
    *missing_.lock() = format("Rank 0 of {} has not come to {}.", options_.ranks, place);
    Socket rank0;
    for (const Address& address : addresses)
      if (!rank0.open()) rank0 = connect_to(address);
    if (!rank0.open() || !rank0.send(&hello, sizeof(hello))) continue;
    *missing_.lock() = format("Rank 0 of {} is at {}, and waits for another rank.", options_.ranks, place);
    while (!stopped_ && !rank0.readable(kPollMs)) {
    }
    if (stopped_) break;
    // The end comes without an answer where this was another session's meeting, which was over.
    Answer answer;
    if (!rank0.receive(&answer, sizeof(answer), kHelloMs) || answer.magic != kMagic || answer.size > kLongestAnswer)
      continue;
    std::vector<char> got(answer.size);
    if (!rank0.receive(got.data(), got.size(), kHelloMs)) continue;
    TENON_INVALID_IF(answer.refused != 0, "{}", std::string(got.begin(), got.end()));
    bytes = std::move(got);
    missing_.lock()->clear();
    return Status();
  }
  return cancelled("The ranks meet no more.");
}

}  // namespace tenon::cuda
