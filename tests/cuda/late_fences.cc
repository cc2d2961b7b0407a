// Fences that are never signalled, and a program that is killed while CUDA waits for it: runs end at their deadline,
// other runs go on, and nothing hangs.
//   tenon_cuda_late_fences HOST_LIBRARY PLUGIN [--vulkan-gpu]
// The other program is a process of its own; its timeline is a Vulkan driver's with --vulkan-gpu, else a shared one as
// the fake driver takes it.
#include <execinfo.h>
#include <pthread.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <thread>

#include "base/deadline.h"
#include "base/format.h"
#include "conformance/suite.h"
#include "waiting_frames.h"

namespace {

using namespace tenon;  // NOLINT(google-build-using-namespace)
using conformance::Host;
using conformance::Owned;
using test::OtherProgram;
using test::WaitingFrames;

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

bool says_deadline(const Status& status) { return status.message().find("tenon.timeout_ms") != std::string::npos; }

enum class Ending : uint8_t { kLateSignal, kKilledAndSignalledByUs, kNever, kInTime, kUnified };

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
    case Ending::kUnified:
      return "the fence is signalled late, and the session works on a stream of its own behind it";
  }
  return "";
}

Status scenario(Host& host, OtherProgram& foreign, Ending ending) {
  WaitingFrames frames(host);
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
Status flowing_frames(Host& host, OtherProgram& foreign) {
  WaitingFrames frames(host);
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

// The run's stream waits for the fence, and the session's stream for the run's.
Status unified_session(Host& host, OtherProgram& foreign) {
  WaitingFrames frames(host);
  TENON_TRY(frames.open(foreign));
  TENON_TRY_ASSIGN(Owned<OrtSession> waiting, frames.make_session("300", true));
  TENON_TRY_ASSIGN(Owned<OrtSession> other, frames.make_session("300", true));
  TENON_TRY(frames.run(waiting.get(), true, kTimeoutMs));
  TENON_TRY(frames.run(other.get(), false, 0));
  TENON_TRY(frames.wait(1));
  {
    Watchdog watch("the run whose fence nobody signals");
    const Status status = frames.run(waiting.get(), true, kTimeoutMs);
    expect(says_deadline(status) && watch.elapsed_ms() >= kTimeoutMs / 2,
           format("the run ends at its deadline, after {} ms: {}", watch.elapsed_ms(), status.to_string()));
  }
  {
    Watchdog watch("a run behind it");
    const Status status = frames.run(waiting.get(), true, kTimeoutMs);
    expect(says_deadline(status), format("one behind it fails after {} ms", watch.elapsed_ms()));
  }
  {
    Watchdog watch("another session");
    const Status status = frames.run(other.get(), false, 0);
    expect(status.ok(), format("another session goes on: {} ms {}", watch.elapsed_ms(), status.to_string()));
  }
  Watchdog watch("the run after the signal");
  foreign.signal(1);
  Status status;
  do {
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
    status = frames.run(waiting.get(), true, kTimeoutMs);
  } while (!status.ok() && watch.elapsed_ms() < kLimitMs / 2);
  expect(status.ok(), format("after the signal the session goes on: {} ms {}", watch.elapsed_ms(), status.to_string()));
  status = frames.run(waiting.get(), false, 0);
  expect(status.ok(), "and on its own stream: " + status.to_string());
  return Status();
}

// A whole life of a program, in a process of its own: what it answers is its exit status.
int live(const char* library, const char* plugin, bool vulkan, Ending ending) {
  std::printf("%s\n", name_of(ending));
  auto foreign = OtherProgram::start(vulkan);
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
  const int files = conformance::count_open_fds();
  const Status done = ending == Ending::kInTime    ? flowing_frames(**host, **foreign)
                      : ending == Ending::kUnified ? unified_session(**host, **foreign)
                                                   : scenario(**host, **foreign, ending);
  expect(done.ok(), "the scenario: " + done.to_string());
  if (ending != Ending::kNever)
    std::printf("       open files: %d before, %d after\n", files, conformance::count_open_fds());
  Watchdog watch("releasing the host");
  *host = nullptr;
  expect(true, format("the host is released after {} ms", watch.elapsed_ms()));
  return complaints == 0 ? 0 : 1;
}

int in_a_process(const char* library, const char* plugin, bool vulkan, Ending ending) {
  std::fflush(stdout);
  const pid_t pid = ::fork();
  if (pid == 0) {
    const int code = live(library, plugin, vulkan, ending);
    std::fflush(stdout);
    std::exit(code);  // also where a stream waits for ever
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
  for (const Ending ending :
       {Ending::kLateSignal, Ending::kKilledAndSignalledByUs, Ending::kNever, Ending::kInTime, Ending::kUnified})
    worst = std::max(worst, in_a_process(argv[1], argv[2], vulkan, ending));
  return worst;
}
