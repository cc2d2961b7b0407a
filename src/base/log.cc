#include "base/log.h"

#include <cstdio>
#include <mutex>
#include <shared_mutex>

#include "base/env.h"

namespace tenon {

namespace {

struct TopicRow {
  const char* name;
  uint32_t bits;
};
constexpr TopicRow kTopics[] = {{"dispatch", 1}, {"plan", 2}, {"copy", 4}, {"sync", 8}, {"interop", 16}, {"all", 31}};

struct Sink {
  std::shared_mutex mutex;
  LogSink call;
};
// Never destroyed: threads may still log while the process ends.
Sink& sink() {
  static Sink* the_sink = new Sink;
  return *the_sink;
}

LogLevel lowest_level() {
  static const LogLevel level = [] {
    const std::string name = env_value(Env::kLog);
    if (name == "info") return LogLevel::kInfo;
    if (name == "error") return LogLevel::kError;
    // Sessions refuse it (check_environment); a library in another host can only say so.
    if (name != "warning")
      std::fprintf(stderr, "tenon: warning: log: TENON_LOG is \"%s\"; it takes info, warning or error.\n",
                   name.c_str());
    return LogLevel::kWarning;
  }();
  return level;
}

}  // namespace

std::string_view log_level_name(LogLevel level) {
  static constexpr std::string_view kNames[] = {"trace", "info", "warning", "error"};
  const auto index = static_cast<size_t>(level);
  return index < std::size(kNames) ? kNames[index] : "unknown";
}

void set_log_sink(LogSink call) {
  std::unique_lock lock(sink().mutex);
  sink().call = std::move(call);
}

void log_text(LogLevel level, const char* topic, std::string_view message) {
  // A trace line was asked for by its topic, whatever the level.
  if (level != LogLevel::kTrace && level < lowest_level()) return;
  std::shared_lock lock(sink().mutex);
  if (sink().call) {
    sink().call(level, topic, message);
    return;
  }
  const std::string line = format("tenon: {}: {}: {}\n", log_level_name(level), topic, message);
  std::fwrite(line.data(), 1, line.size(), stderr);
}

namespace internal {

std::atomic<uint32_t> trace_topics{kTopicsUnread};

uint32_t read_trace_topics() {
  set_trace_topics(env_value(Env::kTrace));
  return trace_topics.load(std::memory_order_relaxed);
}

}  // namespace internal

void set_trace_topics(std::string_view names) {
  uint32_t topics = 0;
  while (!names.empty()) {
    const size_t comma = names.find(',');
    const std::string_view name = names.substr(0, comma);
    names = comma == std::string_view::npos ? std::string_view() : names.substr(comma + 1);
    if (name.empty()) continue;
    uint32_t bits = 0;
    for (const TopicRow& row : kTopics)
      if (name == row.name) bits = row.bits;
    if (bits == 0)
      log_warning("log", "The trace topic \"{}\" is none of dispatch, plan, copy, sync, interop, all.", name);
    topics |= bits;
  }
  internal::trace_topics.store(topics, std::memory_order_relaxed);
}

const char* trace_topic_name(TraceTopic topic) {
  for (const TopicRow& row : kTopics)
    if (row.bits == static_cast<uint32_t>(topic)) return row.name;
  return "trace";
}

}  // namespace tenon
