// exit() while a stream waits for a fence that is never signalled: the process ends, with its own status, though a
// library unloads code in an exit handler, for which the driver waits as long as the stream does.
//   tenon_cuda_exits HOST_LIBRARY PLUGIN UNLOADING_LIBRARY [--vulkan-gpu]
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <new>
#include <string>
#include <thread>

#include "base/deadline.h"
#include "base/format.h"
#include "leave_waiting.h"

namespace {

using namespace tenon;  // NOLINT(google-build-using-namespace)
using test::LeftWaiting;

constexpr int kStatus = 3;
constexpr int64_t kGraceMs = 2000;     // exit_guard.h
constexpr int64_t kLongestMs = 10000;  // twice what it says, and a loaded machine

int complaints = 0;
void expect(bool good, const std::string& what) {
  std::printf("%s  %s\n", good ? "ok   " : "WRONG", what.c_str());
  std::fflush(stdout);
  complaints += good ? 0 : 1;
}

// The notes of a process that ends, in memory that it shares with the one that watches it.
struct Left {
  std::atomic<int64_t> exit_ns{0};
  std::atomic<bool> oldest_handler_ran{false};
};
Left* left_behind() {
  static Left* const left = [] {
    void* const shared = ::mmap(nullptr, sizeof(Left), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    return shared == MAP_FAILED ? nullptr : new (shared) Left;
  }();
  return left;
}

enum class Case : uint8_t { kForgotten, kReleased, kSignalledMeanwhile, kReached, kChild };

const char* name_of(Case one) {
  switch (one) {
    case Case::kForgotten:
      return "the other program is gone, and nothing released";
    case Case::kReleased:
      return "the other program is gone, and everything released";
    case Case::kSignalledMeanwhile:
      return "the other program signals while the process ends";
    case Case::kReached:
      return "nobody waits any more";
    case Case::kChild:
      return "a child by fork, whose parent waits";
  }
  return "";
}

// In a process of its own.
[[noreturn]] void live(const test::LeaveWaiting& options, Case one) {
  (void)std::atexit([] { left_behind()->oldest_handler_ran = true; });
  auto made = test::leave_waiting(options);
  if (!made.ok()) {
    std::printf("%s\n", made.status().to_string().c_str());
    std::fflush(stdout);
    ::_exit(options.vulkan ? 77 : 1);
  }
  auto* const left = new LeftWaiting(*std::move(made));  // what is not released is forgotten
  std::printf("%s\n", left->host->description().c_str());
  switch (one) {
    case Case::kForgotten:
      left->program->kill();
      break;
    case Case::kReleased:
      left->program->kill();
      delete left;
      break;
    case Case::kSignalledMeanwhile:
      std::thread([left] {
        std::this_thread::sleep_for(std::chrono::milliseconds(kGraceMs / 4));
        left->program->signal(2);
      }).detach();
      break;
    case Case::kReached:
      left->program->signal(2);
      (void)left->frames->finish();
      break;
    case Case::kChild: {
      const int64_t begin_ns = monotonic_ns();
      const pid_t child = ::fork();
      if (child == 0) std::exit(kStatus);
      int status = 0;
      (void)::waitpid(child, &status, 0);
      const int64_t ms = (monotonic_ns() - begin_ns) / 1'000'000;
      std::printf("       the child has ended after %lld ms\n", static_cast<long long>(ms));
      std::fflush(stdout);
      ::_exit(ms < kGraceMs && WIFEXITED(status) ? WEXITSTATUS(status) : 1);
    }
  }
  std::printf("       said before the end, and not flushed");
  left_behind()->exit_ns = monotonic_ns();
  std::exit(kStatus);
}

void check(const test::LeaveWaiting& options, Case one) {
  std::printf("%s\n", name_of(one));
  std::fflush(stdout);
  left_behind()->oldest_handler_ran = false;
  left_behind()->exit_ns = 0;
  const int64_t begin_ns = monotonic_ns();
  const pid_t pid = ::fork();
  if (pid == 0) live(options, one);
  int status = 0;
  for (;;) {
    if (::waitpid(pid, &status, WNOHANG) == pid) break;
    const int64_t exit_ns = left_behind()->exit_ns;
    const int64_t limit_ms = exit_ns != 0 ? 2 * kLongestMs : 10 * kLongestMs;
    if (monotonic_ns() - (exit_ns != 0 ? exit_ns : begin_ns) > limit_ms * 1'000'000) {
      (void)::kill(pid, SIGKILL);
      (void)::waitpid(pid, &status, 0);
      expect(false, exit_ns != 0 ? "exit hangs" : "the process hangs before it ends");
      return;
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
  std::printf("\n");
  const int64_t ms = (monotonic_ns() - left_behind()->exit_ns) / 1'000'000;
  const int code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  if (code == 77) std::exit(77);
  expect(code == kStatus, format("the process ends with {}, as it was to with {}", code, kStatus));
  if (one == Case::kChild) return;
  const bool in_vain = one == Case::kForgotten || one == Case::kReleased;
  const bool in_time = in_vain ? ms >= kGraceMs && ms <= kLongestMs : ms < kGraceMs;
  expect(in_time, format("exit takes {} ms", ms));
  const bool ran = left_behind()->oldest_handler_ran;
  expect(ran != in_vain, format("the oldest exit handler {}", ran ? "runs" : "does not run"));
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 4 || left_behind() == nullptr) {
    std::fprintf(stderr, "usage: %s HOST_LIBRARY PLUGIN UNLOADING_LIBRARY [--vulkan-gpu]\n", argv[0]);
    return 2;
  }
  test::LeaveWaiting options = {.host_library = argv[1],
                                .plugin = argv[2],
                                .unloading_library = argv[3],
                                .vulkan = argc > 4 && std::strcmp(argv[4], "--vulkan-gpu") == 0};
  for (const Case one : {Case::kForgotten, Case::kReleased, Case::kSignalledMeanwhile, Case::kReached})
    check(options, one);
  // CUDA's libraries and stock onnxruntime's threads are not tested in a child of such a process.
  options.unloading_library = nullptr;
  if (!options.vulkan && std::strstr(argv[1], "tenon") != nullptr) check(options, Case::kChild);
  std::printf("%d complaints\n", complaints);
  return complaints == 0 ? 0 : 1;
}
