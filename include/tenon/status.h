// Status and Result<T>, by which Tenon reports failures. No function of the public API throws.
//
// Ownership: a Status is a value; a failed one shares an immutable record between its copies.
// Threads: const access from any thread.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "tenon/export.h"

namespace tenon {

// The caller's next step decides between the codes.
enum class StatusCode : uint8_t {
  kOk = 0,
  kInvalidArgument,    // fix the call, the model or the data
  kUnsupported,        // choose another way: an operator, type or handle kind that this build or machine does not have
  kNotFound,           // a name or file that does not exist
  kOutOfRange,         // an offset, index or size past the end
  kResourceExhausted,  // memory, descriptors, a limit
  kDeviceError,        // an EP or a device failed in this call; others may still work
  kDeviceLost,         // every later call on this device fails
  kCancelled,          // the caller asked for it
  kInternal,           // a defect of Tenon
  kTimeout,            // a deadline of the caller's passed: try again, or give more time
};

// "invalid_argument", "unsupported", ...
TENON_API std::string_view status_code_name(StatusCode code);

class [[nodiscard]] TENON_API Status {
 public:
  Status() = default;  // OK
  Status(StatusCode code, std::string message);

  static Status ok_status() { return Status(); }
  bool ok() const { return rep_ == nullptr; }
  StatusCode code() const { return rep_ ? rep_->code : StatusCode::kOk; }
  // A sentence with the values in it, and the context that callers added; empty when OK.
  const std::string& message() const;
  // "invalid_argument: Offset (4096) ..."; "ok" when OK.
  std::string to_string() const;
  // Adds " - while importing memory for input "x"." on the way up. No effect when OK.
  Status with_context(std::string_view context) &&;

 private:
  struct Rep {
    StatusCode code;
    std::string message;
  };
  std::shared_ptr<const Rep> rep_;
};

namespace internal {
// Prints the status and aborts: a Result was read although it holds an error.
[[noreturn]] TENON_API void die_bad_result_access(const Status& status);
}  // namespace internal

// A value, or the Status that says why there is none. Read value() only after ok().
template <typename T>
class [[nodiscard]] Result {
 public:
  Result(T value) : value_(std::move(value)) {}         // NOLINT(google-explicit-constructor)
  Result(Status status) : status_(std::move(status)) {  // NOLINT(google-explicit-constructor)
    if (status_.ok()) status_ = Status(StatusCode::kInternal, "A Result was made from an OK status without a value.");
  }
  bool ok() const { return value_.has_value(); }
  const Status& status() const& { return status_; }
  Status status() && { return std::move(status_); }
  T& value() & { return check(), *value_; }
  const T& value() const& { return check(), *value_; }
  T&& value() && { return check(), *std::move(value_); }
  T& operator*() & { return value(); }
  const T& operator*() const& { return value(); }
  T&& operator*() && { return std::move(*this).value(); }
  T* operator->() { return &value(); }
  const T* operator->() const { return &value(); }

 private:
  void check() const {
    if (!value_.has_value()) internal::die_bad_result_access(status_);
  }
  std::optional<T> value_;
  Status status_;
};

}  // namespace tenon
