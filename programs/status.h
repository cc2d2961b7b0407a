// Statuses with formatted messages: invalid_argument("Line {} is empty.", line).
#pragma once

#include <tenon/status.h>
#include <tenon/try.h>

#include <utility>

#include "programs/format.h"

namespace tenon::programs {

template <StatusCode code>
struct Failure {
  template <typename... Args>
  Status operator()(fmt::format_string<Args...> text, Args&&... args) const {
    return Status(code, format(text, std::forward<Args>(args)...));
  }
};
inline constexpr Failure<StatusCode::kInvalidArgument> invalid_argument;
inline constexpr Failure<StatusCode::kUnsupported> unsupported;
inline constexpr Failure<StatusCode::kNotFound> not_found;
inline constexpr Failure<StatusCode::kResourceExhausted> resource_exhausted;
inline constexpr Failure<StatusCode::kDeviceError> device_error;
inline constexpr Failure<StatusCode::kDeviceLost> device_lost;
inline constexpr Failure<StatusCode::kCancelled> cancelled;
inline constexpr Failure<StatusCode::kInternal> internal_error;
inline constexpr Failure<StatusCode::kTimeout> timed_out;

// "WHAT: No space left on device.", with the code that fits an errno value: kResourceExhausted for room, memory and
// descriptors, else kNotFound.
Status io_failure(const std::string& what, int error);

// "read: Bad file descriptor (9)" for an errno value.
std::string errno_text(const char* call, int error);

}  // namespace tenon::programs
