#include "abi/session_profile.h"

#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdio>
#include <ctime>

#include "base/deadline.h"

namespace tenon::abi {
namespace {

constexpr size_t kMaxEvents = 1'000'000;

// "PREFIX_2026-11-21_15-38-06.json", with a number where a name was given out in the same second.
std::string file_name(const std::string& prefix) {
  static std::atomic<unsigned> files{0};
  const std::time_t now = std::chrono::system_clock::to_time_t(std::chrono::system_clock::now());
  std::tm parts{};
  localtime_r(&now, &parts);
  char text[32];
  std::strftime(text, sizeof text, "%Y-%m-%d_%H-%M-%S", &parts);
  const unsigned number = files.fetch_add(1, std::memory_order_relaxed);
  return number == 0 ? tenon::format("{}_{}.json", prefix, text) : tenon::format("{}_{}_{}.json", prefix, text, number);
}

int this_thread() { return static_cast<int>(::syscall(SYS_gettid)); }

}  // namespace

SessionProfile::SessionProfile(std::string prefix) : prefix_(std::move(prefix)), start_ns_(monotonic_ns()) {}

void SessionProfile::add(std::string_view name, int64_t begin_ns, int64_t end_ns) {
  auto events = events_.lock();
  if (events->size() < kMaxEvents) events->push_back({std::string(name), begin_ns, end_ns, this_thread()});
}

Result<std::string> SessionProfile::write() {
  std::vector<Event> events;
  events.swap(*events_.lock());
  std::string name = file_name(prefix_);
  std::FILE* file = std::fopen(name.c_str(), "we");
  if (file == nullptr)
    return invalid_argument("The profile \"{}\" cannot be written: {}.", name, errno_text("fopen", errno));
  const int process = ::getpid();
  std::fputs("[\n", file);
  for (size_t i = 0; i < events.size(); ++i) {
    const Event& event = events[i];
    std::fputs(
        tenon::format("{{\"cat\":\"Session\",\"pid\":{},\"tid\":{},\"dur\":{},\"ts\":{},\"ph\":\"X\",\"name\":\"{}\","
                      "\"args\":{{}}}}{}\n",
                      process, event.thread, (event.end_ns - event.begin_ns) / 1000,
                      (event.begin_ns - start_ns_) / 1000, event.name, i + 1 < events.size() ? "," : "")
            .c_str(),
        file);
  }
  std::fputs("]\n", file);
  const bool failed = std::ferror(file) != 0;
  if (std::fclose(file) != 0 || failed) return invalid_argument("The profile \"{}\" cannot be written.", name);
  return name;
}

Status write_run_profile(const std::string& prefix, int64_t begin_ns, int64_t end_ns) {
  SessionProfile profile(prefix);
  profile.add("model_run", begin_ns, end_ns);
  return profile.write().status();
}

}  // namespace tenon::abi
