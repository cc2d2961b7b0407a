#include "base/trace.h"

#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <utility>

#include "base/env.h"
#include "base/format.h"
#include "base/guarded.h"
#include "base/json.h"
#include "base/log.h"
#include "base/system.h"

namespace tenon {

namespace internal {
std::atomic<int> trace_users{1};
}  // namespace internal

namespace {

using internal::trace_users;

// Written with the file's lock held.
std::atomic<bool> is_open{false};

void set_open(bool open) {
  const bool before = is_open.exchange(open, std::memory_order_release);
  if (before != open) trace_users.fetch_add(open ? 1 : -1, std::memory_order_relaxed);
}

// Names come from models, which may be hostile: a longer one is cut.
constexpr size_t kLongestName = 200;
// How long events wait to be written: those of a thread's outermost span, which a crash is to leave, and others.
constexpr int64_t kOutermostFlushNs = 1'000'000;
constexpr int64_t kFlushNs = 20'000'000;
constexpr int kMaxFiles = 100;

struct TraceFile {
  int fd = -1;
  pid_t pid = 0;
  uint32_t number = 0;  // of the files of this process
  int64_t flushed_ns = 0;
  size_t used = 0;
  char buffer[64 * 1024];
};

// Never destroyed: threads may still write while the process ends.
Guarded<TraceFile>& trace_file() {
  static auto* file = new Guarded<TraceFile>;
  return *file;
}

thread_local constinit TraceSink* sink_of_thread = nullptr;
thread_local constinit TraceSubject subject_of_thread;
thread_local constinit int open_spans = 0;
// The file in which this thread has its name already.
thread_local constinit uint32_t named_in_file = 0;

// A write that fails ends the trace, not the run.
void write_all(TraceFile& file, const char* data, size_t size) {
  for (size_t done = 0; done < size;) {
    const ssize_t written = ::write(file.fd, data + done, size - done);
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) {
      set_open(false);
      return;
    }
    done += written;
  }
}

void flush(TraceFile& file) {
  write_all(file, file.buffer, file.used);
  file.used = 0;
  file.flushed_ns = monotonic_ns();
}

// Whole events only: the file is an array that lacks its "]" whenever the process ends.
void append(TraceFile& file, std::string_view text) {
  if (sizeof(file.buffer) - file.used < text.size()) flush(file);
  if (sizeof(file.buffer) < text.size()) return write_all(file, text.data(), text.size());
  std::memcpy(file.buffer + file.used, text.data(), text.size());
  file.used += text.size();
}

void close_locked(TraceFile& file) {
  if (file.fd < 0) return;
  if (file.pid == ::getpid()) {
    append(file, "\n]\n");
    flush(file);
  }
  ::close(file.fd);
  file.fd = -1;
}

// The name of the process or, in the event "thread_name", of this thread.
std::string name_event(const TraceFile& file, const char* kind, const std::string& name) {
  return format(R"({{"name":"{}","ph":"M","pid":{},"tid":{},"args":{{"name":{}}}}})", kind, file.pid, thread_number(),
                json_string(name));
}

// "t-2.json" of "t.json".
std::string numbered(const std::string& path, int number) {
  if (number == 1) return path;
  const size_t name = path.rfind('/') + 1;
  const size_t dot = path.rfind('.');
  const size_t end = dot == std::string::npos || dot <= name ? path.size() : dot;
  return format("{}-{}{}", path.substr(0, end), number, path.substr(end));
}

// Microseconds, as the format has them.
std::string microseconds(int64_t ns) { return format("{}.{:03}", ns / 1000, ns % 1000); }

// `make` gives the event's members after its process and thread.
template <typename Make>
void write_event(int64_t flush_ns, const Make& make) {
  auto file = trace_file().lock();
  if (file->fd < 0 || file->pid != ::getpid()) return;
  if (named_in_file != file->number) {
    named_in_file = file->number;
    append(*file, ",\n" + name_event(*file, "thread_name", thread_name()));
  }
  append(*file, format(",\n{{\"pid\":{},\"tid\":{},", file->pid, thread_number()) + make() + "}");
  if (monotonic_ns() - file->flushed_ns > flush_ns) flush(*file);
}

}  // namespace

TraceArgs& TraceArgs::add_json(std::string_view key, std::string_view json) {
  members_ += ',';
  members_ += json_string(key);
  members_ += ':';
  members_ += json;
  return *this;
}

TraceArgs& TraceArgs::add(std::string_view key, std::string_view text) { return add_json(key, json_string(text)); }

TraceArgs& TraceArgs::add(std::string_view key, std::span<const std::string> texts) {
  std::string list;
  for (const std::string& text : texts) list += (list.empty() ? "" : ",") + json_string(text);
  return add_json(key, "[" + list + "]");
}

TraceSink::Scope::Scope(TraceSink* sink) : before_(std::exchange(sink_of_thread, sink)), counts_(sink != nullptr) {
  if (counts_) trace_users.fetch_add(1, std::memory_order_relaxed);
}
TraceSink::Scope::~Scope() {
  sink_of_thread = before_;
  if (counts_) trace_users.fetch_sub(1, std::memory_order_relaxed);
}

bool internal::has_trace_sink() { return sink_of_thread != nullptr; }

TraceSubject& TraceSubject::current() { return subject_of_thread; }

Status open_trace_file(const std::string& path) {
  static const int at_exit = std::atexit(close_trace_file);
  (void)at_exit;
  auto file = trace_file().lock();
  close_locked(*file);
  std::string name = path;
  for (int number = 1; number <= kMaxFiles && file->fd < 0; ++number) {
    name = numbered(path, number);
    file->fd = create_locked_file(name);
    if (file->fd < 0 && errno != EWOULDBLOCK) break;
  }
  if (file->fd < 0)
    return invalid_argument("The trace file \"{}\" cannot be written: {}.", name, errno_text("open", errno));
  if (name != path) log_info("trace", "\"{}\" is being written already, so this trace goes to \"{}\".", path, name);
  file->pid = ::getpid();
  ++file->number;
  file->used = 0;
  append(*file, "[\n" + name_event(*file, "process_name", program_name()));
  flush(*file);
  set_open(true);
  return Status();
}

void close_trace_file() {
  auto file = trace_file().lock();
  set_open(false);
  close_locked(*file);
}

bool internal::is_trace_file_open() {
  static std::once_flag once;
  std::call_once(once, [] {
    // A file that the program has opened itself comes first.
    const std::string path = is_open.load(std::memory_order_acquire) ? "" : env_value(Env::kTraceFile);
    if (const Status status = path.empty() ? Status() : open_trace_file(path); !status.ok())
      log_warning("trace", "{}", status.message());
    trace_users.fetch_sub(1, std::memory_order_relaxed);
  });
  return is_open.load(std::memory_order_acquire);
}

void write_trace_span(const TraceEvent& event) {
  std::string args(event.args);
  const TraceSubject& subject = subject_of_thread;
  if (subject.step >= 0) args += format(",\"step\":{},\"stream\":{}", subject.step, subject.stream);
  if (subject.session != 0) args += format(",\"session\":{}", subject.session);
  if (sink_of_thread != nullptr) {
    TraceEvent with_subject = event;
    with_subject.args = args;
    sink_of_thread->ended(with_subject);
  }
  if (!trace_file_enabled()) return;
  // The chunks of a pool's threads are many, and their caller's span ends after them.
  const bool outermost = open_spans == 0 && subject.node.empty();
  write_event(outermost ? kOutermostFlushNs : kFlushNs, [&] {
    return format(R"("name":{},"cat":{},"ph":"X","ts":{},"dur":{},"args":{{{}}})",
                  json_string(event.name.substr(0, kLongestName)), json_string(event.category),
                  microseconds(event.begin_ns), microseconds(event.end_ns - event.begin_ns),
                  args.empty() ? args : args.substr(1));
  });
}

void write_trace_arrow(bool begins, std::string_view id, int64_t at_ns) {
  if (!trace_file_enabled()) return;
  write_event(kFlushNs, [&] {
    return format(R"("name":"order","cat":"order","ph":"{}","id":{},"ts":{})", begins ? "s" : "f", json_string(id),
                  microseconds(at_ns));
  });
}

TraceSpan::Open::Open(const char* in_category, std::string_view called)
    : category(in_category), name(called), begin_ns(monotonic_ns()) {
  ++open_spans;
}

void TraceSpan::Open::end() const {
  const int64_t end_ns = monotonic_ns();
  --open_spans;
  write_trace_span({category, name, begin_ns, end_ns, args.members()});
}

}  // namespace tenon
