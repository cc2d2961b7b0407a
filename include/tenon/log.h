// Sets the sink of Tenon's messages: warnings, errors, and the topics that TENON_TRACE selects.
//
// Threads: every function from any thread; the sink may be called from several at once.
#pragma once

#include <cstdint>
#include <functional>
#include <string_view>

#include "tenon/export.h"

namespace tenon {

enum class LogLevel : uint8_t { kTrace, kInfo, kWarning, kError };
// "trace", "info", "warning", "error".
TENON_API std::string_view log_level_name(LogLevel level);

// `topic` is the trace topic ("copy") or the part of Tenon that speaks; `message` is a sentence without a line end.
// Must not throw, and must not call set_log_sink.
using LogSink = std::function<void(LogLevel level, std::string_view topic, std::string_view message)>;

// Replaces the sink; an empty one means stderr again. Returns when no call of the old sink is under way.
TENON_API void set_log_sink(LogSink sink);

}  // namespace tenon
