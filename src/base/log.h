// Messages and trace topics. Both go to the application's sink, or to stderr.
//
//   log_warning("pool", "Only {} of {} threads start.", started, wanted);
//   TENON_TRACE(kCopy, "\"{}\" moves {} bytes: {}.", what, bytes, reason);   // formats only when TENON_TRACE has
//   "copy"
#pragma once

#include <tenon/log.h>

#include <atomic>
#include <string_view>
#include <utility>

#include "base/format.h"

namespace tenon {

enum class TraceTopic : uint32_t { kDispatch = 1, kPlan = 2, kCopy = 4, kSync = 8, kInterop = 16 };

void log_text(LogLevel level, const char* topic, std::string_view message);

template <typename... Args>
void log_info(const char* topic, fmt::format_string<Args...> text, Args&&... args) {
  log_text(LogLevel::kInfo, topic, format_text(text, fmt::make_format_args(args...)));
}
template <typename... Args>
void log_warning(const char* topic, fmt::format_string<Args...> text, Args&&... args) {
  log_text(LogLevel::kWarning, topic, format_text(text, fmt::make_format_args(args...)));
}
template <typename... Args>
void log_error(const char* topic, fmt::format_string<Args...> text, Args&&... args) {
  log_text(LogLevel::kError, topic, format_text(text, fmt::make_format_args(args...)));
}

namespace internal {
inline constexpr uint32_t kTopicsUnread = 1u << 31;
extern std::atomic<uint32_t> trace_topics;
uint32_t read_trace_topics();
}  // namespace internal

// One load once TENON_TRACE has been read.
inline bool trace_enabled(TraceTopic topic) {
  uint32_t topics = internal::trace_topics.load(std::memory_order_relaxed);
  if (topics & internal::kTopicsUnread) topics = internal::read_trace_topics();
  return (topics & static_cast<uint32_t>(topic)) != 0;
}
// Sets the topics as TENON_TRACE would: "copy,sync". Unknown names are warned about and left out.
void set_trace_topics(std::string_view names);
// "copy"
const char* trace_topic_name(TraceTopic topic);

}  // namespace tenon

#define TENON_TRACE(topic, ...)                                                                           \
  do {                                                                                                    \
    if (::tenon::trace_enabled(::tenon::TraceTopic::topic))                                               \
      ::tenon::log_text(::tenon::LogLevel::kTrace, ::tenon::trace_topic_name(::tenon::TraceTopic::topic), \
                        ::tenon::format(__VA_ARGS__));                                                    \
  } while (false)
