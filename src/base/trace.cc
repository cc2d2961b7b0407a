#include "base/trace.h"

#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "base/env.h"
#include "base/guarded.h"
#include "base/log.h"
#include "base/system.h"

namespace tenon {

namespace internal {
std::atomic<TraceFileState> trace_file_state{TraceFileState::kUnread};
}  // namespace internal

namespace {

using internal::trace_file_state;
using internal::TraceFileState;

constexpr size_t kLongestName = 200;

struct TraceFile {
  int fd = -1;
  pid_t pid = 0;
  bool first = true;
  size_t used = 0;
  char buffer[64 * 1024];
};

// Never destroyed: threads may still write while the process ends.
Guarded<TraceFile>& trace_file() {
  static auto* file = new Guarded<TraceFile>;
  return *file;
}

// A write that fails ends the trace, not the run.
void flush(TraceFile& file) {
  for (size_t done = 0; done < file.used;) {
    const ssize_t written = ::write(file.fd, file.buffer + done, file.used - done);
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) {
      trace_file_state.store(TraceFileState::kOff, std::memory_order_release);
      break;
    }
    done += static_cast<size_t>(written);
  }
  file.used = 0;
}

void append(TraceFile& file, const char* text, size_t size) {
  if (sizeof(file.buffer) - file.used < size) flush(file);
  std::memcpy(file.buffer + file.used, text, size);
  file.used += size;
}

void close_locked(TraceFile& file) {
  if (file.fd < 0) return;
  if (file.pid == ::getpid()) {
    append(file, "\n]\n", 3);
    flush(file);
  }
  ::close(file.fd);
  file.fd = -1;
}

// JSON text of `name`, cut at kLongestName bytes. Bytes that are no printable ASCII become \u00xx: always valid JSON.
size_t escape(std::string_view name, char* out) {
  size_t size = 0;
  for (const char c : name.substr(0, kLongestName)) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte == '"' || byte == '\\') out[size++] = '\\';
    if (byte >= 0x20 && byte < 0x7f) {
      out[size++] = c;
    } else {
      size += static_cast<size_t>(std::snprintf(out + size, 7, "\\u%04x", byte));
    }
  }
  out[size] = '\0';
  return size;
}

}  // namespace

Status open_trace_file(const std::string& path) {
  const int fd = create_file(path);
  if (fd < 0) return invalid_argument("The trace file \"{}\" cannot be written: {}.", path, errno_text("open", errno));
  static const int at_exit = std::atexit(close_trace_file);
  (void)at_exit;
  auto file = trace_file().lock();
  close_locked(*file);
  file->fd = fd;
  file->pid = ::getpid();
  file->first = true;
  file->used = 0;
  append(*file, "[\n", 2);
  trace_file_state.store(TraceFileState::kOn, std::memory_order_release);
  return Status();
}

void close_trace_file() {
  auto file = trace_file().lock();
  trace_file_state.store(TraceFileState::kOff, std::memory_order_release);
  close_locked(*file);
}

bool internal::open_trace_file_from_environment() {
  static std::once_flag once;
  std::call_once(once, [] {
    if (trace_file_state.load() != TraceFileState::kUnread) return;
    const std::string path = env_value(Env::kTraceFile);
    const Status status = path.empty() ? Status() : open_trace_file(path);
    if (!status.ok()) log_warning("trace", "{}", status.message());
    if (path.empty() || !status.ok()) trace_file_state.store(TraceFileState::kOff, std::memory_order_release);
  });
  return trace_file_state.load(std::memory_order_acquire) == TraceFileState::kOn;
}

void write_trace_span(const char* category, std::string_view name, int64_t begin_ns, int64_t end_ns) {
  thread_local const int thread_id = thread_number();
  char escaped[6 * kLongestName + 1];
  escape(name, escaped);
  char line[sizeof(escaped) + 256];
  auto file = trace_file().lock();
  if (file->fd < 0 || file->pid != ::getpid()) return;
  const int size =
      std::snprintf(line, sizeof(line),
                    "%s{\"name\":\"%s\",\"cat\":\"%.32s\",\"ph\":\"X\",\"ts\":%lld.%03d,\"dur\":%lld.%03d,\"pid\":%d,"
                    "\"tid\":%d}",
                    file->first ? "" : ",\n", escaped, category, static_cast<long long>(begin_ns / 1000),
                    static_cast<int>(begin_ns % 1000), static_cast<long long>((end_ns - begin_ns) / 1000),
                    static_cast<int>((end_ns - begin_ns) % 1000), static_cast<int>(file->pid), thread_id);
  file->first = false;
  append(*file, line, static_cast<size_t>(size));
}

}  // namespace tenon
