// Statuses in the commands that use the public API alone: as base/status.h, which those files do not include.
#pragma once

#include <tenon/status.h>

#include <utility>

#include "cli/format.h"

namespace tenon::cli {

template <typename... Args>
Status invalid_argument(fmt::format_string<Args...> text, Args&&... args) {
  return Status(StatusCode::kInvalidArgument, format(text, std::forward<Args>(args)...));
}
template <typename... Args>
Status not_found(fmt::format_string<Args...> text, Args&&... args) {
  return Status(StatusCode::kNotFound, format(text, std::forward<Args>(args)...));
}
template <typename... Args>
Status unsupported(fmt::format_string<Args...> text, Args&&... args) {
  return Status(StatusCode::kUnsupported, format(text, std::forward<Args>(args)...));
}
template <typename... Args>
Status device_error(fmt::format_string<Args...> text, Args&&... args) {
  return Status(StatusCode::kDeviceError, format(text, std::forward<Args>(args)...));
}

// "read: Bad file descriptor (9)" for an errno value.
std::string errno_text(const char* call, int error);

}  // namespace tenon::cli

#define CLI_CONCAT_INNER_(a, b) a##b
#define CLI_CONCAT_(a, b) CLI_CONCAT_INNER_(a, b)

// Returns the status of `expr` from the enclosing function if it failed.
#define CLI_TRY(expr)                                                                            \
  do {                                                                                           \
    if (::tenon::Status cli_try_status_ = (expr); !cli_try_status_.ok()) return cli_try_status_; \
  } while (false)

// The same, with a sentence part such as "while reading node 3" added.
#define CLI_TRY_CONTEXT(expr, ...)                                                       \
  do {                                                                                   \
    if (::tenon::Status cli_try_status_ = (expr); !cli_try_status_.ok())                 \
      return std::move(cli_try_status_).with_context(::tenon::cli::format(__VA_ARGS__)); \
  } while (false)

// Declares or assigns `decl` from the value of a Result expression, or returns its status.
#define CLI_TRY_ASSIGN(decl, expr) CLI_TRY_ASSIGN_IMPL_(CLI_CONCAT_(cli_result_, __LINE__), decl, expr)
#define CLI_TRY_ASSIGN_IMPL_(result, decl, expr)       \
  auto result = (expr);                                \
  if (!result.ok()) return std::move(result).status(); \
  decl = std::move(result).value()

#define CLI_INVALID_IF(condition, ...)                                 \
  do {                                                                 \
    if (condition) return ::tenon::cli::invalid_argument(__VA_ARGS__); \
  } while (false)

#define CLI_UNSUPPORTED_IF(condition, ...)                        \
  do {                                                            \
    if (condition) return ::tenon::cli::unsupported(__VA_ARGS__); \
  } while (false)
