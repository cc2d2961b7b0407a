#include "abi/objects/session_profile.h"

#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdio>
#include <ctime>

#include "base/deadline.h"
#include "base/json.h"

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

const char* category_name(OrtProfilingEventCategory category) {
  switch (category) {
    case OrtProfilingEventCategory_SESSION:
      return "Session";
    case OrtProfilingEventCategory_NODE:
      return "Node";
    case OrtProfilingEventCategory_KERNEL:
      return "Kernel";
    case OrtProfilingEventCategory_API:
      return "Api";
  }
  return "Session";
}

int this_thread() { return static_cast<int>(::syscall(SYS_gettid)); }

}  // namespace

SessionProfile::SessionProfile(std::string prefix) : prefix_(std::move(prefix)), start_ns_(monotonic_ns()) {}

void SessionProfile::complete(OrtProfilingEvent& event) {
  if (event.process_id == 0) event.process_id = ::getpid();
  if (event.thread_id == 0) event.thread_id = this_thread();
}

void SessionProfile::add(std::string_view name, int64_t begin_ns, int64_t end_ns) {
  OrtProfilingEvent event;
  event.name = name;
  event.timestamp_us = (begin_ns - start_ns_) / 1000;
  event.duration_us = (end_ns - begin_ns) / 1000;
  add(std::move(event));
}

void SessionProfile::ran(const NodeRun& node) {
  OrtProfilingEvent event;
  event.category = OrtProfilingEventCategory_NODE;
  event.name = node.name.empty() ? tenon::format("{}_{}_kernel_time", node.op_type, node.index)
                                 : tenon::format("{}_kernel_time", node.name);
  event.timestamp_us = (node.begin_ns - start_ns_) / 1000;
  event.duration_us = (node.end_ns - node.begin_ns) / 1000;
  event.json = node_arguments(node);
  if (const int32_t session = TraceSubject::current().session; session != 0)
    event.json += tenon::format(",\"session\":{}", session);
  add(std::move(event));
}

void SessionProfile::ended(const TraceEvent& span) {
  if (std::string_view(span.category) == "kernel") return;  // ran() has it
  OrtProfilingEvent event;
  event.name = tenon::format("{}: {}", span.category, span.name);
  event.timestamp_us = (span.begin_ns - start_ns_) / 1000;
  event.duration_us = (span.end_ns - span.begin_ns) / 1000;
  event.json = span.args;
  add(std::move(event));
}

void SessionProfile::add(OrtProfilingEvent event) {
  complete(event);
  auto events = events_.lock();
  if (events->size() < kMaxEvents) events->push_back(std::move(event));
}

Result<std::string> SessionProfile::write() {
  std::vector<OrtProfilingEvent> events;
  events.swap(*events_.lock());
  std::string name = file_name(prefix_);
  std::FILE* file = std::fopen(name.c_str(), "we");
  if (file == nullptr)
    return invalid_argument("The profile \"{}\" cannot be written: {}.", name, errno_text("fopen", errno));
  std::fputs("[\n", file);
  for (size_t i = 0; i < events.size(); ++i) {
    const OrtProfilingEvent& event = events[i];
    std::string arguments;
    for (const auto& [key, value] : event.arguments)
      arguments += tenon::format(",{}:{}", json_string(key), json_string(value));
    arguments += event.json;
    std::fputs(tenon::format("{{\"cat\":\"{}\",\"pid\":{},\"tid\":{},\"dur\":{},\"ts\":{},\"ph\":\"X\",\"name\":{},"
                             "\"args\":{{{}}}}}{}\n",
                             category_name(event.category), event.process_id, event.thread_id, event.duration_us,
                             event.timestamp_us, json_string(event.name), arguments.empty() ? "" : arguments.substr(1),
                             i + 1 < events.size() ? "," : "")
                   .c_str(),
               file);
  }
  std::fputs("]\n", file);
  const bool failed = std::ferror(file) != 0;
  if (std::fclose(file) != 0 || failed) return invalid_argument("The profile \"{}\" cannot be written.", name);
  return name;
}

ProfiledRun::ProfiledRun(SessionProfile* session, const std::string* run_prefix)
    : session_(session), begin_ns_(monotonic_ns()) {
  if (run_prefix != nullptr) own_.emplace(*run_prefix);
}

void ProfiledRun::ran(const NodeRun& node) {
  if (session_ != nullptr) session_->ran(node);
  // As in the reference: the EPs' nodes are in the session's profile alone.
  if (own_ && !node.by_plugin) own_->ran(node);
}

void ProfiledRun::ended(const TraceEvent& span) {
  if (session_ != nullptr) session_->ended(span);
  if (own_) own_->ended(span);
}

Status ProfiledRun::end(const Status& status) {
  const int64_t end_ns = monotonic_ns();
  for (SessionProfile* profile : {session_, own_ ? &*own_ : nullptr}) {
    if (profile == nullptr) continue;
    profile->add("SequentialExecutor::Execute", begin_ns_, end_ns);
    profile->add("model_run", begin_ns_, end_ns);
  }
  return own_ && status.ok() ? own_->write().status() : status;
}

}  // namespace tenon::abi
