// Spans for a trace viewer (Perfetto, chrome://tracing): one JSON array in the file that TENON_TRACE_FILE names, and in
// the profile of a session. docs/how-to/debugging.md lists the spans and their arguments.
//
//   TraceSpan span("load", "read");   // from here to the end of the scope
//   if (span) span.args().add("path", path);
//
// Threads: any. A process forked after the file was opened writes nothing to it. When off, a span costs one load.
#pragma once

#include <atomic>
#include <concepts>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "base/deadline.h"
#include "base/status.h"

namespace tenon {

// The members of an event's "args": `,"key":value` for each.
class TraceArgs {
 public:
  TraceArgs& add(std::string_view key, std::string_view text);
  TraceArgs& add(std::string_view key, const char* text) { return add(key, std::string_view(text)); }
  template <std::integral T>
  TraceArgs& add(std::string_view key, T number) {
    if constexpr (std::same_as<T, bool>) return add_json(key, number ? "true" : "false");
    return add_json(key, std::to_string(number));
  }
  TraceArgs& add(std::string_view key, std::span<const std::string> texts);
  TraceArgs& add_json(std::string_view key, std::string_view json);
  const std::string& members() const { return members_; }

 private:
  std::string members_;
};

struct TraceEvent {
  const char* category;
  std::string_view name;
  int64_t begin_ns, end_ns;  // of monotonic_ns()
  std::string_view args;     // TraceArgs::members()
};

// Gets the spans of one thread. Threads: it is called by the thread that it is set for.
class TraceSink {
 public:
  virtual ~TraceSink() = default;
  virtual void ended(const TraceEvent& event) = 0;

  // Sets the sink of this thread until the end of the scope. Null: the file alone.
  class Scope {
   public:
    explicit Scope(TraceSink* sink);
    ~Scope();
    Scope(const Scope&) = delete;
    Scope& operator=(const Scope&) = delete;

   private:
    TraceSink* const before_;
    const bool counts_;
  };
};

namespace internal {
// The open file, the sinks of all threads, and 1 until TENON_TRACE_FILE has been read.
extern std::atomic<int> trace_users;
bool is_trace_file_open();
bool has_trace_sink();
}  // namespace internal

inline bool trace_file_enabled() {
  return internal::trace_users.load(std::memory_order_relaxed) != 0 && internal::is_trace_file_open();
}

// Whether spans of this thread go anywhere.
inline bool trace_enabled() {
  return internal::trace_users.load(std::memory_order_relaxed) != 0 &&
         (internal::is_trace_file_open() || internal::has_trace_sink());
}

// Starts a file (replacing the one that is open), as TENON_TRACE_FILE does for the first span. A file that another
// process, or another library of this one, is writing stays as it is: "t.json" becomes "t-2.json", and so on.
Status open_trace_file(const std::string& path);
// Ends the array and closes the file; no effect when none is open. Also called at exit.
void close_trace_file();

// The object of a thread's spans: each event names session, step and stream, and work on other threads is named after
// `node`.
struct TraceSubject {
  int32_t session = 0;    // 0: none
  int32_t step = -1;      // of the plan; -1: none
  int32_t stream = 0;     // of the step: 0: the host does it; else the EP whose stream has it
  std::string_view node;  // Node::label of the node under way

  static TraceSubject& current();
  class Scope;
};

// Changes the subject of this thread until the end of the scope.
class TraceSubject::Scope {
 public:
  explicit Scope(TraceSubject subject) : before_(current()) { current() = subject; }
  ~Scope() { current() = before_; }
  Scope(const Scope&) = delete;
  Scope& operator=(const Scope&) = delete;

 private:
  const TraceSubject before_;
};

// A span that was measured elsewhere.
void write_trace_span(const TraceEvent& event);
// An arrow between two spans of the file: it begins in the span that this thread is in at `at_ns`, or ends in the one
// that this thread begins then or next. `id` is the same at both ends.
void write_trace_arrow(bool begins, std::string_view id, int64_t at_ns);

// `name` must live as long as the span.
class TraceSpan {
 public:
  TraceSpan(const char* category, std::string_view name) {
    if (trace_enabled()) [[unlikely]]
      open_.emplace(category, name);
  }
  // A name that ends with the expression does not live as long.
  template <std::same_as<std::string> Name>
  TraceSpan(const char* category, Name&& name, int32_t session = 0) = delete;
  // The first span of a session on this thread.
  TraceSpan(const char* category, std::string_view name, int32_t session) : TraceSpan(category, name) {
    if (open_) [[unlikely]]
      open_->subject.emplace(TraceSubject{.session = session});
  }
  ~TraceSpan() {
    if (open_) [[unlikely]]
      open_->end();
  }
  TraceSpan(const TraceSpan&) = delete;
  TraceSpan& operator=(const TraceSpan&) = delete;

  // Whether the span goes anywhere: its arguments need not be made otherwise.
  explicit operator bool() const { return open_.has_value(); }
  TraceArgs& args() { return open_->args; }
  int64_t begin_ns() const { return open_->begin_ns; }

 private:
  struct Open {
    Open(const char* in_category, std::string_view called);
    void end() const;
    const char* category;
    std::string_view name;
    int64_t begin_ns;
    TraceArgs args;
    std::optional<TraceSubject::Scope> subject;
  };
  std::optional<Open> open_;
};

}  // namespace tenon
