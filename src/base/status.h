// Internal additions to <tenon/status.h>: constructors with formatting, and macros that return a failure to the caller.
#pragma once

#include <tenon/status.h>

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
#undef TENON_STATUS_MAKER_

// "read: Bad file descriptor (9)" for an errno value.
std::string errno_text(const char* call, int error);

[[noreturn]] void check_failed(const char* file, int line, const char* condition);

}  // namespace tenon

#define TENON_CONCAT_INNER_(a, b) a##b
#define TENON_CONCAT_(a, b) TENON_CONCAT_INNER_(a, b)

// Returns the status of `expr` from the enclosing function if it failed.
#define TENON_TRY(expr)                                                                                \
  do {                                                                                                 \
    if (::tenon::Status tenon_try_status_ = (expr); !tenon_try_status_.ok()) return tenon_try_status_; \
  } while (false)

// The same, with a sentence part such as "while reading node 3" added. The text is built only on failure.
#define TENON_TRY_CONTEXT(expr, ...)                                                  \
  do {                                                                                \
    if (::tenon::Status tenon_try_status_ = (expr); !tenon_try_status_.ok())          \
      return std::move(tenon_try_status_).with_context(::tenon::format(__VA_ARGS__)); \
  } while (false)

// Declares or assigns `decl` from the value of a Result expression, or returns its status.
#define TENON_TRY_ASSIGN(decl, expr) TENON_TRY_ASSIGN_IMPL_(TENON_CONCAT_(tenon_result_, __LINE__), decl, expr)
#define TENON_TRY_ASSIGN_IMPL_(result, decl, expr)     \
  auto result = (expr);                                \
  if (!result.ok()) return std::move(result).status(); \
  decl = std::move(result).value()

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
