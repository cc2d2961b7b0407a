// Fences that nobody signals, and a program that is killed while CUDA waits for it: runs end at their deadline, others
// go on, nobody hangs.
//   tenon_cuda_late_fences HOST_LIBRARY PLUGIN [--vulkan-gpu]
// The other program is a process of its own; its timeline is a Vulkan driver's with --vulkan-gpu, else a shared one as
// the fake driver takes it.
#include <execinfo.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <tenon/external_memory.h>
#include <tenon/fence.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <functional>
#include <thread>

#include "base/deadline.h"
#include "base/format.h"
#include "cli/conformance/host.h"
#include "cli/conformance/relu_model.h"
#ifdef TENON_HAS_VULKAN
#include "../interop/vulkan_program.h"
#endif

namespace {

using namespace tenon;  // NOLINT(google-build-using-namespace)
using conformance::Host;
using conformance::Outcome;
using conformance::Owned;
using conformance::to_status;

constexpr int64_t kCount = 1000;
constexpr int64_t kTimeoutMs = 300;
// Far above what any step takes where nothing hangs.
constexpr int64_t kLimitMs = 20'000;

int complaints = 0;
void expect(bool good, const std::string& what) {
  std::printf("%s  %s\n", good ? "ok   " : "WRONG", what.c_str());
  std::fflush(stdout);
  complaints += good ? 0 : 1;
}

void print_stack(int) {
  void* frames[48];
  ::backtrace_symbols_fd(frames, ::backtrace(frames, 48), STDOUT_FILENO);
}

// Ends the process, with the name of the step, when it takes too long.
class Watchdog {
 public:
  explicit Watchdog(const char* step) : begin_ns_(monotonic_ns()) {
    thread_ = std::thread([this, step] { watch(step); });
  }
  ~Watchdog() {
    done_ = true;
    thread_.join();
  }
  int64_t elapsed_ms() const { return (monotonic_ns() - begin_ns_) / 1'000'000; }

 private:
  void watch(const char* step) {
    while (!done_) {
      if (elapsed_ms() > kLimitMs) {
        std::printf("WRONG  %s hangs\n", step);
        std::fflush(stdout);
        (void)::pthread_kill(main_, SIGUSR1);  // says where
        std::this_thread::sleep_for(std::chrono::seconds(1));
        ::_exit(3);
      }
      std::this_thread::sleep_for(std::chrono::milliseconds(2));
    }
  }
  const int64_t begin_ns_;
  const pthread_t main_ = ::pthread_self();
  std::atomic<bool> done_{false};
  std::thread thread_;
};

// The other program: it makes a timeline, sends it, and signals a value when it is told to.
class Foreign {
 public:
  // Before any driver is open in this process.
  static Result<std::unique_ptr<Foreign>> start(bool vulkan) {
    int sockets[2];
    if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, sockets) != 0) return resource_exhausted("No socket.");
    const pid_t pid = ::fork();
    if (pid < 0) return resource_exhausted("No process.");
    if (pid == 0) (void)::close(sockets[0]);  // so that it ends with us
    if (pid == 0) ::_exit(vulkan ? be_vulkan(sockets[1]) : be_shared(sockets[1]));
    (void)::close(sockets[1]);
    std::unique_ptr<Foreign> foreign(new Foreign(pid, sockets[0]));
    TENON_TRY_ASSIGN(foreign->timeline_, receive(sockets[0]));
    return foreign;
  }
  ~Foreign() { kill(); }

  int fd() const { return timeline_.fd(); }
  void taken() { (void)timeline_.release_fd(); }
  void signal(uint8_t value) { (void)!::write(socket_, &value, 1); }
  void kill() {
    if (pid_ > 0) {
      (void)::kill(pid_, SIGKILL);
      (void)::waitpid(pid_, nullptr, 0);
    }
    pid_ = -1;
  }

 private:
  Foreign(pid_t pid, int socket) : pid_(pid), socket_(socket) {}

  static int serve(int socket, int fd, const std::function<Status(uint64_t)>& signal) {
    if (!send(socket, fd)) return 1;
    for (uint8_t value = 0; ::read(socket, &value, 1) == 1;)
      if (!signal(value).ok()) return 1;
    return 0;
  }
  static int be_shared(int socket) {
    auto timeline = SharedTimeline::create("other program");
    if (!timeline.ok()) return 1;
    return serve(socket, (*timeline)->fd(), [&](uint64_t value) { return (*timeline)->signal(value); });
  }
  static int be_vulkan(int socket) {
#ifdef TENON_HAS_VULKAN
    std::string why_not;
    auto vulkan = test::VulkanProgram::create(&why_not, test::VulkanProgram::Runs::kOnGpu);
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

  union Control {
    cmsghdr header;
    char bytes[CMSG_SPACE(sizeof(int))];
  };
  static bool send(int socket, int fd) {
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
  static Result<OwnedHandle> receive(int socket) {
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

  pid_t pid_;
  int socket_;
  OwnedHandle timeline_;
};

class Frames {
 public:
  explicit Frames(Host& host) : host_(host) {}

  Status open(Foreign& foreign) {
    TENON_TRY_ASSIGN(importer_, host_.create_importer());
    TENON_TRY_ASSIGN(stream_, host_.create_stream());
    TENON_TRY_ASSIGN(elsewhere_, host_.create_stream());
    OrtExternalSemaphoreDescriptor descriptor = {};
    descriptor.version = host_.version();
    descriptor.type = ORT_EXTERNAL_SEMAPHORE_VK_TIMELINE_SEMAPHORE_OPAQUE_FD;
    descriptor.native_handle = reinterpret_cast<void*>(static_cast<intptr_t>(foreign.fd()));
    OrtExternalSemaphoreHandle* handle = nullptr;
    TENON_TRY(answer(host_.interop().ImportSemaphore(importer_.get(), &descriptor, &handle)));
    foreign.taken();
    semaphore_ = host_.own(handle, host_.interop().ReleaseExternalSemaphoreHandle);
    return Status();
  }
  Status wait(uint64_t value) {
    return answer(host_.interop().WaitSemaphore(importer_.get(), semaphore_.get(), stream_.get(), value));
  }
  // In the place of a program that is gone: what waits goes on.
  Status signal_elsewhere(uint64_t value) {
    return answer(host_.interop().SignalSemaphore(importer_.get(), semaphore_.get(), elsewhere_.get(), value));
  }
  Result<Owned<OrtSession>> make_session(const char* load_timeout_ms = "300") {
    return host_.create_session(test::chain_model({"Relu", "Neg", "Relu", "Neg"}, {kCount}),
                                {{"load_timeout_ms", load_timeout_ms}});
  }

  // From host memory to host memory; on our stream, or on one of the run's own.
  Status run(OrtSession* session, bool on_stream, int64_t timeout_ms) {
    const OrtApi& api = host_.api();
    std::vector<float> elements(kCount, 3.0F);
    OrtMemoryInfo* raw_info = nullptr;
    TENON_TRY(answer(api.CreateCpuMemoryInfo(OrtDeviceAllocator, OrtMemTypeDefault, &raw_info)));
    const auto info = host_.own(raw_info, api.ReleaseMemoryInfo);
    OrtValue* raw_x = nullptr;
    TENON_TRY(answer(api.CreateTensorWithDataAsOrtValue(raw_info, elements.data(), kCount * sizeof(float), &kCount, 1,
                                                        ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT, &raw_x)));
    const auto x = host_.own(raw_x, api.ReleaseValue);
    OrtRunOptions* raw_options = nullptr;
    TENON_TRY(answer(api.CreateRunOptions(&raw_options)));
    const auto options = host_.own(raw_options, api.ReleaseRunOptions);
    if (timeout_ms > 0)
      TENON_TRY(answer(api.AddRunConfigEntry(raw_options, "tenon.timeout_ms", std::to_string(timeout_ms).c_str())));
    if (on_stream) api.RunOptionsSetSyncStream(raw_options, stream_.get());
    const char* inputs[] = {"x"};
    const char* outputs[] = {"y"};
    const OrtValue* in[] = {raw_x};
    OrtValue* raw_y = nullptr;
    TENON_TRY(answer(api.Run(session, raw_options, inputs, in, 1, outputs, 1, &raw_y)));
    const auto y = host_.own(raw_y, api.ReleaseValue);
    void* data = nullptr;
    TENON_TRY(answer(api.GetTensorMutableData(raw_y, &data)));
    for (int64_t i = 0; i < kCount; ++i)
      if (static_cast<const float*>(data)[i] != 0) return internal_error("Element {} is wrong.", i);
    return Status();
  }

 private:
  Status answer(OrtStatus* status) { return to_status(host_.take(status), "The C ABI"); }
  Host& host_;
  Owned<OrtExternalResourceImporter> importer_;
  Owned<OrtSyncStream> stream_, elsewhere_;
  Owned<OrtExternalSemaphoreHandle> semaphore_;
};

bool says_deadline(const Status& status) { return status.message().find("tenon.timeout_ms") != std::string::npos; }

enum class Ending : uint8_t { kLateSignal, kKilledAndSignalledByUs, kNever, kInTime };

const char* name_of(Ending ending) {
  switch (ending) {
    case Ending::kLateSignal:
      return "the fence is signalled late";
    case Ending::kKilledAndSignalledByUs:
      return "the other program is killed, and its value signalled in its place";
    case Ending::kNever:
      return "the other program is killed, and everything released";
    case Ending::kInTime:
      return "the other program signals all the time, two frames late";
  }
  return "";
}

Status scenario(Host& host, Foreign& foreign, Ending ending) {
  Frames frames(host);
  TENON_TRY(frames.open(foreign));
  TENON_TRY_ASSIGN(Owned<OrtSession> waiting, frames.make_session());
  TENON_TRY_ASSIGN(Owned<OrtSession> other, frames.make_session());
  TENON_TRY(frames.run(waiting.get(), true, kTimeoutMs));
  TENON_TRY(frames.run(other.get(), false, 0));
  TENON_TRY(frames.wait(1));
  if (ending != Ending::kLateSignal) foreign.kill();
  {
    Watchdog watch("the run whose fence nobody signals");
    const Status status = frames.run(waiting.get(), true, kTimeoutMs);
    expect(says_deadline(status) && watch.elapsed_ms() >= kTimeoutMs / 2,
           format("the run ends at its deadline, after {} ms: {}", watch.elapsed_ms(), status.to_string()));
  }
  {
    Watchdog watch("a second run behind the fence");
    const Status status = frames.run(waiting.get(), true, kTimeoutMs);
    expect(says_deadline(status), format("one behind it fails after {} ms", watch.elapsed_ms()));
  }
  {
    Watchdog watch("another session");
    const Status status = frames.run(other.get(), false, 0);
    expect(status.ok(), format("another session goes on: {} ms {}", watch.elapsed_ms(), status.to_string()));
  }
  {
    Watchdog watch("the same session on another stream");
    const Status status = frames.run(waiting.get(), false, 0);
    expect(status.ok(),
           format("so does the same one on a stream of its own: {} ms {}", watch.elapsed_ms(), status.to_string()));
  }
  {
    // The driver loads no code while a stream waits.
    Watchdog watch("a new session");
    const auto fresh = frames.make_session();
    const std::string why = fresh.status().message();
    expect(!fresh.ok() && why.find("waits for value 1") != std::string::npos &&
               why.find("load_timeout_ms") != std::string::npos && watch.elapsed_ms() >= kTimeoutMs / 2,
           format("a new session is refused after {} ms: {}", watch.elapsed_ms(), fresh.status().to_string()));
  }
  if (ending != Ending::kNever) {
    Watchdog watch("the run after the signal");
    if (ending == Ending::kLateSignal) {
      foreign.signal(1);
    } else {
      TENON_TRY(frames.signal_elsewhere(1));
    }
    Status status;
    do {
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
      status = frames.run(waiting.get(), true, kTimeoutMs);
    } while (!status.ok() && watch.elapsed_ms() < kLimitMs / 2);
    expect(status.ok(),
           format("after the signal the session goes on: {} ms {}", watch.elapsed_ms(), status.to_string()));
    const auto fresh = frames.make_session();
    status = fresh.ok() ? frames.run(fresh->get(), false, 0) : fresh.status();
    expect(status.ok(), format("a new session is made and runs: {} ms {}", watch.elapsed_ms(), status.to_string()));
  }
  Watchdog watch("releasing everything");
  waiting = nullptr;
  other = nullptr;
  std::printf("       sessions are released after %lld ms\n", static_cast<long long>(watch.elapsed_ms()));
  return Status();
}

// Frames that flow: each one's wait is queued before the one before is signalled, so that a stream waits at every
// moment.
Status flowing_frames(Host& host, Foreign& foreign) {
  Frames frames(host);
  TENON_TRY(frames.open(foreign));
  TENON_TRY_ASSIGN(const Owned<OrtSession> first, frames.make_session());
  TENON_TRY(frames.run(first.get(), false, 0));
  constexpr uint8_t kLast = 250;
  std::atomic<int> queued{0};
  std::atomic<bool> done{false};
  std::thread program([&] {
    for (int value = 1; value <= kLast && !done; ++value) {
      if (!frames.wait(static_cast<uint64_t>(value)).ok()) break;
      queued = value;
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
  });
  std::thread signals([&] {
    // Two frames behind, or 10 ms after the last where no more come: what is queued is reached in any case.
    for (int value = 1; value <= kLast && !(done && value > queued);) {
      for (int ms = 0; ms < 10 && queued < value + 2; ++ms) std::this_thread::sleep_for(std::chrono::milliseconds(1));
      if (value <= queued) foreign.signal(static_cast<uint8_t>(value++));
    }
  });
  while (queued < 3) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  {
    Watchdog watch("a session that is made while frames flow");
    const auto fresh = frames.make_session("10000");
    const Status status = fresh.ok() ? frames.run(fresh->get(), false, 0) : fresh.status();
    expect(status.ok(), format("a session is made while frames flow: {} ms, behind frame {}: {}", watch.elapsed_ms(),
                               queued.load(), status.to_string()));
  }
  done = true;
  program.join();
  signals.join();
  Watchdog watch("releasing everything");
  return Status();
}

size_t open_files() {
  size_t count = 0;
  for ([[maybe_unused]] const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) ++count;
  return count;
}

// A whole life of a program, in a process of its own: what it answers is its exit status.
int live(const char* library, const char* plugin, bool vulkan, Ending ending) {
  std::printf("%s\n", name_of(ending));
  auto foreign = Foreign::start(vulkan);
  if (!foreign.ok()) {
    std::printf("%s\n", foreign.status().to_string().c_str());
    return vulkan ? 77 : 1;
  }
  auto host = Host::load({.library = library, .plugin_name = "cuda", .plugin_library = plugin});
  if (!host.ok()) {
    std::printf("%s\n", host.status().to_string().c_str());
    return 1;
  }
  std::printf("%s\n", (*host)->description().c_str());
  const size_t files = open_files();
  const Status done =
      ending == Ending::kInTime ? flowing_frames(**host, **foreign) : scenario(**host, **foreign, ending);
  expect(done.ok(), "the scenario: " + done.to_string());
  if (ending != Ending::kNever) std::printf("       open files: %zu before, %zu after\n", files, open_files());
  Watchdog watch("releasing the host");
  *host = nullptr;
  expect(true, format("the host is released after {} ms", watch.elapsed_ms()));
  return complaints == 0 ? 0 : 1;
}

// What is left then is the driver's end of the process.
int in_a_process(const char* library, const char* plugin, bool vulkan, Ending ending) {
  std::fflush(stdout);
  const pid_t pid = ::fork();
  if (pid == 0) {
    const int code = live(library, plugin, vulkan, ending);
    std::fflush(stdout);
    // As long as a stream waits, the driver's own end of a process does too.
    if (ending == Ending::kNever) ::_exit(code);
    std::exit(code);
  }
  const int64_t begin_ns = monotonic_ns();
  for (;;) {
    int status = 0;
    if (::waitpid(pid, &status, WNOHANG) == pid) {
      const int code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
      std::printf("the process ends with %d\n", code);
      return code;
    }
    if (monotonic_ns() - begin_ns > 6 * kLimitMs * 1'000'000) {
      std::printf("WRONG  the process does not end\n");
      (void)::kill(pid, SIGKILL);
      (void)::waitpid(pid, &status, 0);
      return 1;
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 3) {
    std::fprintf(stderr, "usage: %s HOST_LIBRARY PLUGIN [--vulkan-gpu]\n", argv[0]);
    return 2;
  }
  (void)::signal(SIGUSR1, &print_stack);
  const bool vulkan = argc > 3 && std::strcmp(argv[3], "--vulkan-gpu") == 0;
  int worst = 0;
  for (const Ending ending : {Ending::kLateSignal, Ending::kKilledAndSignalledByUs, Ending::kNever, Ending::kInTime})
    worst = std::max(worst, in_a_process(argv[1], argv[2], vulkan, ending));
  return worst;
}
