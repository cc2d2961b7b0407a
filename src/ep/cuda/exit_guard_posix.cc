#include <link.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <system_error>
#include <thread>
#include <vector>

#include "base/deadline.h"
#include "base/guarded.h"
#include "base/log.h"
#include "ep/cuda/exit_guard.h"

namespace tenon::cuda {

namespace {

constexpr int64_t kNsASecond = 1'000'000'000;
constexpr int64_t kForWaitersNs = 2 * kNsASecond;
constexpr auto kForHandlers = std::chrono::seconds(3);
constexpr auto kForFlushing = std::chrono::milliseconds(500);

using AllWaiters = std::vector<std::weak_ptr<const Waiters>>;
// Never destroyed: what is asked while the process ends.
Guarded<AllWaiters>& all_waiters() {
  static auto* const all = new Guarded<AllWaiters>;
  return *all;
}

std::string who_waits() {
  const AllWaiters all = *all_waiters().lock();
  for (const std::weak_ptr<const Waiters>& one : all) {
    const std::shared_ptr<const Waiters> waiters = one.lock();
    if (waiters == nullptr) continue;
    if (std::string who = waiters->who_waits(); !who.empty()) return who;
  }
  return "";
}

// Ends the process without its other handlers. What was printed is kept, unless a thread holds on to a file.
[[noreturn]] void end_process(int status, const std::string& who) {
  log_warning("exit", "{} The process ends with status {} without the exit handlers that wait for it.", who, status);
  try {
    static std::atomic<bool> flushed{false};
    std::thread([] {
      (void)std::fflush(nullptr);
      flushed = true;
    }).detach();
    const auto end = std::chrono::steady_clock::now() + kForFlushing;
    while (!flushed && std::chrono::steady_clock::now() < end)
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
  } catch (const std::system_error&) {
    (void)std::fflush(stdout);
  }
  ::_exit(status);
}

std::atomic<pid_t> guarded_process{0};

// Asks until nobody waits or the deadline has passed; then who still does. In a thread of its own, because the one that
// ends the process has no thread-local objects any more, and a thread that hangs in the driver may hold a lock.
std::string wait_for_waiters(const Deadline& deadline) {
  struct Asked {
    std::atomic<bool> nobody{false};
    Guarded<std::string> who{std::in_place, "A thread keeps a lock of the CUDA EP."};
  };
  const auto asked = std::make_shared<Asked>();
  std::thread thread([asked, deadline] {
    do {
      std::string who = who_waits();
      if (who.empty()) {
        asked->nobody = true;
        return;
      }
      *asked->who.lock() = std::move(who);
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    } while (!deadline.passed());
  });
  while (!asked->nobody && !deadline.passed()) std::this_thread::sleep_for(std::chrono::microseconds(100));
  if (asked->nobody) {
    thread.join();
    return "";
  }
  thread.detach();
  return *asked->who.lock();
}

void at_exit(int status, void*) {
  // A child by fork has none of the streams' threads, and the locks as they were.
  if (::getpid() != guarded_process) return;
  static std::atomic<bool> ending{false};
  if (ending) return;
  try {
    std::string who = wait_for_waiters(Deadline::after(kForWaitersNs));
    if (who.empty()) return;
    ending = true;
    std::thread([status, who = std::move(who)] {
      std::this_thread::sleep_for(kForHandlers);
      end_process(status, who);
    }).detach();
  } catch (const std::system_error& error) {
    // Without a thread nobody would end what hangs.
    end_process(status, format("There is no thread to wait for streams of CUDA ({}).", error.what()));
  }
}

// Changes whenever a library is loaded.
unsigned long long libraries_loaded() {
  unsigned long long loaded = 0;
  (void)::dl_iterate_phdr(
      [](dl_phdr_info* library, size_t, void* out) {
        *static_cast<unsigned long long*>(out) = library->dlpi_adds;
        return 1;  // it is the same in all of them
      },
      &loaded);
  return loaded;
}

}  // namespace

void ask_at_exit(const std::shared_ptr<const Waiters>& waiters) {
  auto all = all_waiters().lock();
  std::erase_if(*all, [](const auto& one) { return one.expired(); });
  all->push_back(waiters);
}

void guard_exit() {
  static std::atomic<unsigned long long> guarded_against{0};
  const unsigned long long loaded = libraries_loaded();
  if (guarded_against.exchange(loaded) == loaded) return;
  guarded_process = ::getpid();
  (void)::on_exit(&at_exit, nullptr);
}

}  // namespace tenon::cuda
