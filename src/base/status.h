// Internal additions to <tenon/status.h> and <tenon/try.h>: constructors with formatting, checks, and macros over both.
#pragma once

#include <tenon/status.h>
#include <tenon/try.h>

#include <utility>

#include "base/format.h"

namespace tenon {

template <typename... Args>
Status make_status(StatusCode code, fmt::format_string<Args...> text, Args&&... args) {
  return Status(code, format_text(text, fmt::make_format_args(args...)));
}

#define TENON_STATUS_MAKER_(name, code)                                                 \
  template <typename... Args>                                                           \
  Status name(fmt::format_string<Args...> text, Args&&... args) {                       \
    return Status(StatusCode::code, format_text(text, fmt::make_format_args(args...))); \
  }
TENON_STATUS_MAKER_(invalid_argument, kInvalidArgument)
TENON_STATUS_MAKER_(unsupported, kUnsupported)
TENON_STATUS_MAKER_(not_found, kNotFound)
TENON_STATUS_MAKER_(out_of_range, kOutOfRange)
TENON_STATUS_MAKER_(resource_exhausted, kResourceExhausted)
TENON_STATUS_MAKER_(device_error, kDeviceError)
TENON_STATUS_MAKER_(device_lost, kDeviceLost)
TENON_STATUS_MAKER_(cancelled, kCancelled)
TENON_STATUS_MAKER_(internal_error, kInternal)
TENON_STATUS_MAKER_(timed_out, kTimeout)
#undef TENON_STATUS_MAKER_

// "read: Bad file descriptor (9)" for an errno value.
std::string errno_text(const char* call, int error);

[[noreturn]] void check_failed(const char* file, int line, const char* condition);

}  // namespace tenon

// TENON_TRY of <tenon/try.h> with a formatted sentence part such as "while reading node 3" added.
#define TENON_TRY_CONTEXT(expr, ...) TENON_TRY_WITH_CONTEXT(expr, ::tenon::format(__VA_ARGS__))

#define TENON_INVALID_IF(condition, ...)                          \
  do {                                                            \
    if (condition) return ::tenon::invalid_argument(__VA_ARGS__); \
  } while (false)

#define TENON_UNSUPPORTED_IF(condition, ...)                 \
  do {                                                       \
    if (condition) return ::tenon::unsupported(__VA_ARGS__); \
  } while (false)

// Stays on in release. Guards Tenon's own invariants; no user's input, model or plugin can reach one.
#define TENON_CHECK(condition)                                                    \
  do {                                                                            \
    if (!(condition)) ::tenon::check_failed(__FILE_NAME__, __LINE__, #condition); \
  } while (false)

#ifdef NDEBUG
#define TENON_DCHECK(condition) \
  do {                          \
  } while (false)
#else
#define TENON_DCHECK(condition) TENON_CHECK(condition)
#endif
