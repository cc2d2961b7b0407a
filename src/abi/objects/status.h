// OrtStatus, and the way from tenon::Status and back.
//
// Ownership: an OrtStatus* that a function returns is its caller's, who gives it to ReleaseStatus; null is success.
// Threads: a status is a value; one object at a time.
#pragma once

#include <tenon/onnxruntime_c_api.h>
#include <tenon/status.h>

#include <initializer_list>
#include <new>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "base/format.h"

struct OrtStatus {
  OrtErrorCode code = ORT_FAIL;
  std::string message;
  // Tenon's own code, where a status of Tenon became this one; kOk: from_ort_code(code).
  tenon::StatusCode core = tenon::StatusCode::kOk;
};

namespace tenon::abi {

// docs/reference/abi.md, "Codes", has both tables. A code without a counterpart becomes the one for which the caller
// does the same; those with which a plugin says no more than that it fails are device_error.
OrtErrorCode to_ort_code(StatusCode code) noexcept;
StatusCode from_ort_code(OrtErrorCode code) noexcept;
StatusCode core_code(const OrtStatus& status) noexcept;

// Null for an OK status. The second form is for callers of whom programs expect another code (a model file that is not
// there is NO_SUCHFILE).
[[nodiscard]] OrtStatus* to_ort(const Status& status) noexcept;
[[nodiscard]] OrtStatus* to_ort(const Status& status, OrtErrorCode code) noexcept;
// Takes the status over and releases it; OK for null.
Status from_ort(OrtStatus* status) noexcept;

// Several of the C ABI's codes share one of ours. So the code with which a plugin or an operator fails is kept beside
// its status, for this thread and until the next failure: to_ort gives it for that status, also with context added.
void remember_code(const Status& status, OrtErrorCode code) noexcept;
// Empty when `status` is not the one that was remembered last.
std::optional<OrtErrorCode> remembered_code(const Status& status) noexcept;

// The same status, with its code remembered.
Status with_ort_code(Status status, OrtErrorCode code) noexcept;

// In messages of the core: shapes do not fit an operator. In a run that is FAIL, as are most failures of nodes in the
// reference; INVALID_ARGUMENT is for what the caller gives.
inline constexpr std::string_view kOfShapes = " - while inferring the shapes of ";
// Of a run that has failed.
OrtErrorCode run_code(const Status& status) noexcept;

// A new status. Never null, also when memory is short (then it is one that all callers share, and says that).
[[nodiscard]] OrtStatus* make_ort_status(OrtErrorCode code, std::string_view message,
                                         StatusCode core = StatusCode::kOk) noexcept;
[[nodiscard]] OrtStatus* out_of_memory() noexcept;
void release_status(OrtStatus* status) noexcept;

// make_ort_status with formatting: ort_error(ORT_INVALID_ARGUMENT, "Index ({}) exceeds {}.", index, count).
template <typename... Args>
[[nodiscard]] OrtStatus* ort_error(OrtErrorCode code, fmt::format_string<Args...> text, Args&&... args) noexcept {
  try {
    return make_ort_status(code, format_text(text, fmt::make_format_args(args...)));
  } catch (...) {
    return out_of_memory();
  }
}

struct Argument {
  const char* name;
  const void* pointer;
};
// Null when no pointer is null, else INVALID_ARGUMENT that names function and argument:
//   if (OrtStatus* bad = check_pointers("CreateEnv", {{"logid", logid}, {"out", out}})) return bad;
[[nodiscard]] OrtStatus* check_pointers(const char* function, std::initializer_list<Argument> arguments) noexcept;

// Sets an out parameter, if there is one: every adapter does this before its first return.
template <typename T>
void clear(T* out) noexcept {
  if (out != nullptr) *out = T{};
}

// Runs `body` (returning OrtStatus*) and turns an exception of the standard library into a status. For adapters that
// allocate as much as their caller asks for, or call functions that others supply.
template <typename Body>
[[nodiscard]] OrtStatus* guarded(Body&& body) noexcept {
  try {
    return std::forward<Body>(body)();
  } catch (const std::bad_alloc&) {
    return out_of_memory();
  } catch (const std::exception& error) {
    return make_ort_status(ORT_RUNTIME_EXCEPTION, error.what());
  } catch (...) {
    return make_ort_status(ORT_RUNTIME_EXCEPTION, "A function threw something that is no std::exception.");
  }
}

// *out = new T(args...), as a status.
template <typename T, typename... Args>
[[nodiscard]] OrtStatus* make_object(T** out, Args&&... args) noexcept {
  return guarded([&]() -> OrtStatus* {
    *out = new T{std::forward<Args>(args)...};
    return nullptr;
  });
}

}  // namespace tenon::abi
