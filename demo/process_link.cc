// The Vulkan side in a process of its own: both ends of the connection.
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <thread>

#include "demo/channel.h"
#include "demo/producer.h"
#include "demo/producer_link.h"
#include "demo/timeline_bridge.h"

extern char** environ;

namespace tenon::demo {
namespace {

// Where the child finds its socket: posix_spawn duplicates it to this number.
constexpr int kChildSocket = 3;
// A fresh machine compiles shaders for a while; afterwards a frame takes far less than this.
constexpr int64_t kStartTimeoutNs = 60'000'000'000;
constexpr int64_t kFrameTimeoutNs = 30'000'000'000;
constexpr auto kExitPatience = std::chrono::seconds(5);

class ProcessLink : public ProducerLink {
 public:
  ProcessLink(Channel channel, pid_t pid) : channel_(std::move(channel)), pid_(pid) {}

  ~ProcessLink() override {
    channel_.handle().reset();  // the child sees it and ends
    (void)reap();
  }

  Status start(const StartMessage& start) { return channel_.send(start); }

  Result<ProducerSide> connect() override {
    TENON_TRY_ASSIGN(Received received, receive(kStartTimeoutNs));
    TENON_TRY_ASSIGN(const HelloMessage hello, received.as<HelloMessage>());
    const size_t buffers = (received.handles.size() - 2) / 2;
    if (received.handles.size() < 4 || received.handles.size() % 2 != 0 || buffers > kMaxBuffers)
      return internal_error("The Vulkan side sends {} handles.", received.handles.size());
    ProducerSide side;
    side.device = hello.device.view();
    side.fence = hello.fence;
    side.pid = pid_;
    const auto kind = static_cast<ExternalMemoryKind>(hello.memory_kind);
    for (size_t i = 0; i < buffers; ++i) {
      side.inputs.push_back({std::move(received.handles[i]), kind, hello.input_offsets[i]});
      side.outputs.push_back({std::move(received.handles[buffers + i]), kind, hello.output_offsets[i]});
    }
    OwnedHandle& drawn = received.handles[2 * buffers];
    OwnedHandle& released = received.handles[2 * buffers + 1];
    if (hello.on_device != 0) {
      side.on_device = true;
      side.input_bytes = hello.input_bytes;
      side.output_bytes = hello.output_bytes;
      std::copy(std::begin(hello.device_uuid), std::end(hello.device_uuid), side.device_uuid.begin());
      TENON_TRY_ASSIGN(side.drawn_fd, drawn.dup());
      TENON_TRY_ASSIGN(side.released_fd, released.dup());
    }
    if (hello.fence == FenceRoute::kExported) {
      TENON_TRY_ASSIGN(auto device, VulkanDevice::create(side.device));
      TENON_TRY_ASSIGN(side.drawn, import_timeline(device, "drawn frames", drawn));
      TENON_TRY_ASSIGN(side.released, import_timeline(device, "released frames", released));
    } else {
      TENON_TRY_ASSIGN(side.drawn, SharedTimeline::open("drawn frames", drawn.fd()));
      TENON_TRY_ASSIGN(side.released, SharedTimeline::open("released frames", released.fd()));
    }
    return side;
  }

  Result<FrameMessage> next_frame() override {
    TENON_TRY_ASSIGN(const Received received, receive(kFrameTimeoutNs));
    return received.as<FrameMessage>();
  }

  Status explain(Status seen) override {
    // Its own words come first: what it said before it left explains most. Frames that it finished may lie before them.
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::milliseconds(200);
    while (channel_.handle().valid() && std::chrono::steady_clock::now() < deadline) {
      const Result<Received> received = receive(50'000'000);
      if (received.ok()) continue;
      if (received.status().code() == StatusCode::kTimeout) continue;
      return received.status();
    }
    return seen;
  }

  Status finish() override {
    const Result<Received> received = receive(kFrameTimeoutNs);
    if (received.ok()) return internal_error("The Vulkan side goes on after its last frame.");
    if (!ended_) return received.status();
    const int state = reap();
    if (WIFEXITED(state) && WEXITSTATUS(state) == 0) return {};
    return device_lost("The Vulkan side {} after its last frame.", end_text(state));
  }

 private:
  Result<std::shared_ptr<Timeline>> import_timeline(const std::shared_ptr<VulkanDevice>& device, std::string name,
                                                    OwnedHandle& handle) {
    TENON_TRY_ASSIGN(auto timeline, VulkanTimeline::import(device, handle));
    // A driver's timeline does not know that its other side has died.
    return wrap_timeline(std::move(name), std::move(timeline), [this]() -> Status {
      return channel_.peer_gone() ? device_lost("The Vulkan side is gone.") : Status();
    });
  }

  static std::string end_text(int state) {
    if (WIFSIGNALED(state)) return format("was killed by signal {}", WTERMSIG(state));
    return format("ended with exit code {}", WEXITSTATUS(state));
  }

  // The next message; the end of the child becomes a status: its own error if it sent one, else how it died.
  Result<Received> receive(int64_t timeout_ns) {
    Result<Received> received = channel_.receive(timeout_ns);
    if (received.ok() && received->kind == EndMessage::kKind) {
      TENON_TRY_ASSIGN(const EndMessage end, received->as<EndMessage>());
      ended_ = end.code == 0;
      if (ended_) return cancelled("The Vulkan side has drawn its last frame.");
      return Status(static_cast<StatusCode>(end.code), std::string(end.text.view()))
          .with_context(format("in the Vulkan side's process ({})", pid_));
    }
    if (received.ok() || received.status().code() != StatusCode::kDeviceLost) return received;
    const pid_t pid = pid_;
    return device_lost("The Vulkan side's process ({}) {}.", pid, end_text(reap()));
  }

  // Waits for the child's end, and forces it when it takes too long. The exit state.
  int reap() {
    if (pid_ < 0) return state_;
    const auto deadline = std::chrono::steady_clock::now() + kExitPatience;
    while (true) {
      const pid_t got = waitpid(pid_, &state_, WNOHANG);
      if (got == pid_ || (got < 0 && errno != EINTR)) break;
      if (std::chrono::steady_clock::now() > deadline) {
        kill(pid_, SIGKILL);
        while (waitpid(pid_, &state_, 0) < 0 && errno == EINTR) {
        }
        break;
      }
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    pid_ = -1;
    return state_;
  }

  Channel channel_;
  pid_t pid_ = -1;
  int state_ = 0;
  bool ended_ = false;
};

// Sends fds and offsets of all that the Tenon side imports. The bridges, where needed, run from here on.
Status say_hello(Channel& channel, const Producer& producer, uint64_t frames,
                 std::vector<std::unique_ptr<TimelineBridge>>* bridges) {
  HelloMessage hello;
  std::vector<int> fds;
  const bool opaque = producer.input(0).kind() != SharedBufferKind::kMappableFd;
  hello.memory_kind =
      static_cast<uint32_t>(opaque ? ExternalMemoryKind::kVulkanOpaqueFd : ExternalMemoryKind::kMappableFd);
  for (size_t i = 0; i < producer.buffers(); ++i) {
    fds.push_back(producer.input(i).fd());
    hello.input_offsets[i] = producer.input(i).offset_bytes();
    hello.output_offsets[i] = producer.output(i).offset_bytes();
  }
  for (size_t i = 0; i < producer.buffers(); ++i) fds.push_back(producer.output(i).fd());
  (void)hello.device.set(producer.device().name);
  if (producer.input(0).kind() == SharedBufferKind::kDeviceFd) {
    hello.on_device = 1;
    hello.input_bytes = producer.input(0).allocation_bytes();
    hello.output_bytes = producer.output(0).allocation_bytes();
    std::copy(producer.device().uuid.begin(), producer.device().uuid.end(), std::begin(hello.device_uuid));
  }

  if (producer.device().can_export_timelines) {
    hello.fence = FenceRoute::kExported;
    TENON_TRY_ASSIGN(const OwnedHandle drawn, producer.drawn()->export_fd());
    TENON_TRY_ASSIGN(const OwnedHandle released, producer.released()->export_fd());
    fds.push_back(drawn.fd());
    fds.push_back(released.fd());
    return channel.send(hello, fds);
  }
  hello.fence = FenceRoute::kBridged;
  TENON_TRY_ASSIGN(const auto drawn, SharedTimeline::create("drawn frames"));
  TENON_TRY_ASSIGN(const auto released, SharedTimeline::create("released frames"));
  bridges->push_back(TimelineBridge::from_vulkan(producer.drawn(), drawn, frames));
  bridges->push_back(TimelineBridge::to_vulkan(released, producer.released(), frames));
  fds.push_back(drawn->fd());
  fds.push_back(released->fd());
  return channel.send(hello, fds);
}

Status produce(Channel& channel) {
  TENON_TRY_ASSIGN(const Received received, channel.receive(kStartTimeoutNs));
  TENON_TRY_ASSIGN(const StartMessage start, received.as<StartMessage>());
  TENON_TRY_ASSIGN(const std::unique_ptr<Producer> producer, Producer::create(start, true));
  std::vector<std::unique_ptr<TimelineBridge>> bridges;  // destroyed before the producer's timelines
  TENON_TRY(say_hello(channel, *producer, start.frames, &bridges));
  const auto keep_waiting = [&]() -> Status {
    if (channel.peer_gone()) return device_lost("The process that runs Tenon is gone.");
    for (const auto& bridge : bridges) TENON_TRY(bridge->status());
    return {};
  };
  return producer->run(keep_waiting, [&channel](const FrameMessage& message) { return channel.send(message); });
}

}  // namespace

Status run_producer_process(int fd) {
  // The parent may be killed without a word.
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (fcntl(fd, F_SETFD, FD_CLOEXEC) != 0)
    return invalid_argument("Descriptor {} is no socket of the demo: {}.", fd, errno_text("fcntl", errno));
  Channel channel(OwnedHandle::take_fd(fd));
  const Status status = produce(channel);
  EndMessage end;
  end.code = static_cast<uint32_t>(status.code());
  (void)end.text.set(status.message());
  // When it cannot be sent nobody is there to read it.
  (void)channel.send(end).ok();
  return status;
}

Result<std::unique_ptr<ProducerLink>> make_process_link(const StartMessage& start) {
  TENON_TRY_ASSIGN(auto pair, Channel::create_pair());
  auto [ours, theirs] = std::move(pair);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  // adddup2 onto the same number would keep close-on-exec set, so move the child's end out of the way first.
  OwnedHandle high = OwnedHandle::take_fd(fcntl(theirs.fd(), F_DUPFD_CLOEXEC, kChildSocket + 1));
  if (!high.valid()) {
    const int error = errno;
    posix_spawn_file_actions_destroy(&actions);
    return resource_exhausted("{}", errno_text("fcntl", error));
  }
  posix_spawn_file_actions_adddup2(&actions, high.fd(), kChildSocket);
  const std::string number = std::to_string(kChildSocket);
  std::string arguments[] = {"tenon", "demo-producer", "--socket", number};
  char* argv[] = {arguments[0].data(), arguments[1].data(), arguments[2].data(), arguments[3].data(), nullptr};
  pid_t pid = -1;
  const int error = posix_spawn(&pid, "/proc/self/exe", &actions, nullptr, argv, environ);
  posix_spawn_file_actions_destroy(&actions);
  if (error != 0) return resource_exhausted("{}", errno_text("posix_spawn", error));
  auto link = std::make_unique<ProcessLink>(std::move(ours), pid);
  high.reset();
  theirs.handle().reset();  // so that the child's end is the only one left
  TENON_TRY(link->start(start));
  return std::unique_ptr<ProducerLink>(std::move(link));
}

}  // namespace tenon::demo
