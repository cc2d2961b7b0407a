// Spans for a trace viewer (chrome://tracing, Perfetto): one JSON array in the file that TENON_TRACE_FILE names.
//
//   TraceSpan span("kernel", node.name);   // from here to the end of the scope
//
// Threads: any. A process forked after the file was opened writes nothing. Costs one load when off; when on, a span
// allocates nothing and is written from a buffer that is flushed when full and at exit.
#pragma once

#include <atomic>
#include <cstdint>
#include <string>
#include <string_view>

#include "base/deadline.h"
#include "base/status.h"

namespace tenon {

namespace internal {
enum class TraceFileState : uint8_t { kUnread, kOff, kOn };
extern std::atomic<TraceFileState> trace_file_state;
bool open_trace_file_from_environment();
}  // namespace internal

inline bool trace_file_enabled() {
  const auto state = internal::trace_file_state.load(std::memory_order_acquire);
  if (state == internal::TraceFileState::kUnread) return internal::open_trace_file_from_environment();
  return state == internal::TraceFileState::kOn;
}

// Starts a file (replacing the one that is open), as TENON_TRACE_FILE does for the first span.
Status open_trace_file(const std::string& path);
// Ends the array and closes the file; no effect when none is open. Also called at exit.
void close_trace_file();

// A span that was measured elsewhere; times are those of monotonic_ns().
void write_trace_span(const char* category, std::string_view name, int64_t begin_ns, int64_t end_ns);

// `name` must live as long as the span.
class TraceSpan {
 public:
  TraceSpan(const char* category, std::string_view name)
      : category_(trace_file_enabled() ? category : nullptr), name_(name), begin_ns_(category_ ? monotonic_ns() : 0) {}
  ~TraceSpan() {
    if (category_ != nullptr) write_trace_span(category_, name_, begin_ns_, monotonic_ns());
  }
  TraceSpan(const TraceSpan&) = delete;
  TraceSpan& operator=(const TraceSpan&) = delete;

 private:
  const char* category_;
  std::string_view name_;
  int64_t begin_ns_;
};

}  // namespace tenon
