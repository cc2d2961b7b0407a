#include "base/status.h"

#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace tenon {

std::string_view status_code_name(StatusCode code) {
  switch (code) {
    case StatusCode::kOk:
      return "ok";
    case StatusCode::kInvalidArgument:
      return "invalid_argument";
    case StatusCode::kUnsupported:
      return "unsupported";
    case StatusCode::kNotFound:
      return "not_found";
    case StatusCode::kOutOfRange:
      return "out_of_range";
    case StatusCode::kResourceExhausted:
      return "resource_exhausted";
    case StatusCode::kDeviceError:
      return "device_error";
    case StatusCode::kDeviceLost:
      return "device_lost";
    case StatusCode::kCancelled:
      return "cancelled";
    case StatusCode::kInternal:
      return "internal";
    case StatusCode::kTimeout:
      return "timeout";
  }
  return "unknown";
}

Status::Status(StatusCode code, std::string message) {
  if (code != StatusCode::kOk) rep_ = std::make_shared<const Rep>(Rep{code, std::move(message)});
}

const std::string& Status::message() const {
  static const std::string empty;
  return rep_ ? rep_->message : empty;
}

std::string Status::to_string() const {
  if (ok()) return "ok";
  return std::string(status_code_name(code())) + ": " + message();
}

Status Status::with_context(std::string_view context) && {
  if (ok()) return Status();
  return Status(code(), message() + " - " + std::string(context));
}

namespace internal {
void die_bad_result_access(const Status& status) {
  std::fprintf(stderr, "tenon: a Result was read although it holds an error: %s\n", status.to_string().c_str());
  std::abort();
}
}  // namespace internal

void check_failed(const char* file, int line, const char* condition) {
  std::fprintf(stderr, "tenon: %s:%d: check failed: %s\n", file, line, condition);
  std::abort();
}

}  // namespace tenon
