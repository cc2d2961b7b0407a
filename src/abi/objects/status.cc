#include "abi/objects/status.h"

#include "abi/objects/slots.h"

namespace tenon::abi {

OrtErrorCode to_ort_code(StatusCode code) noexcept {
  switch (code) {
    case StatusCode::kOk:
      return ORT_OK;
    case StatusCode::kInvalidArgument:
      return ORT_INVALID_ARGUMENT;
    case StatusCode::kUnsupported:
      return ORT_NOT_IMPLEMENTED;
    case StatusCode::kNotFound:
      return ORT_NOT_FOUND;
    case StatusCode::kOutOfRange:
      return ORT_INVALID_ARGUMENT;
    case StatusCode::kResourceExhausted:
    case StatusCode::kTimeout:
      return ORT_RUNTIME_EXCEPTION;
    case StatusCode::kDeviceError:
      return ORT_EP_FAIL;
    case StatusCode::kDeviceLost:
      return ORT_DEVICE_RESET;
    case StatusCode::kCancelled:
    case StatusCode::kInternal:
      return ORT_FAIL;
  }
  return ORT_FAIL;
}

StatusCode from_ort_code(OrtErrorCode code) noexcept {
  switch (code) {
    case ORT_OK:
      return StatusCode::kOk;
    case ORT_INVALID_ARGUMENT:
    case ORT_NO_MODEL:
    case ORT_INVALID_PROTOBUF:
    case ORT_INVALID_GRAPH:
    case ORT_MODEL_LOADED:
      return StatusCode::kInvalidArgument;
    case ORT_NO_SUCHFILE:
    case ORT_NOT_FOUND:
      return StatusCode::kNotFound;
    case ORT_NOT_IMPLEMENTED:
    case ORT_MODEL_REQUIRES_COMPILATION:
      return StatusCode::kUnsupported;
    case ORT_DEVICE_RESET:
      return StatusCode::kDeviceLost;
    case ORT_MODEL_LOAD_CANCELED:
      return StatusCode::kCancelled;
    case ORT_EP_FAIL:
    case ORT_RUNTIME_EXCEPTION:
    case ORT_FAIL:
    case ORT_ENGINE_ERROR:
      break;
  }
  return StatusCode::kDeviceError;
}

OrtStatus* out_of_memory() noexcept {
  static OrtStatus status{ORT_RUNTIME_EXCEPTION, "Out of memory.", StatusCode::kResourceExhausted};
  return &status;
}

OrtStatus* make_ort_status(OrtErrorCode code, std::string_view message, StatusCode core) noexcept {
  try {
    return new OrtStatus{code, std::string(message), core};
  } catch (...) {
    return out_of_memory();
  }
}

void release_status(OrtStatus* status) noexcept {
  if (status != out_of_memory()) delete status;
}

OrtStatus* to_ort(const Status& status, OrtErrorCode code) noexcept {
  return status.ok() ? nullptr : make_ort_status(code, status.message(), status.code());
}

OrtStatus* to_ort(const Status& status) noexcept {
  return to_ort(status, remembered_code(status).value_or(to_ort_code(status.code())));
}

OrtErrorCode run_code(const Status& status) noexcept {
  if (const std::optional<OrtErrorCode> code = remembered_code(status)) return *code;
  const bool of_shapes = status.message().find(kOfShapes) != std::string::npos;
  return of_shapes && status.code() == StatusCode::kInvalidArgument ? ORT_FAIL : to_ort_code(status.code());
}

namespace {

struct Remembered {
  OrtErrorCode code = ORT_OK;
  StatusCode core = StatusCode::kOk;
  std::string message;
};

Remembered& remembered() {
  static thread_local Remembered last;
  return last;
}

}  // namespace

void remember_code(const Status& status, OrtErrorCode code) noexcept {
  Remembered& last = remembered();
  last.code = ORT_OK;
  try {
    last.message = status.message();
  } catch (...) {
    return;  // the code of ours has to do
  }
  last.core = status.code();
  last.code = code;
}

std::optional<OrtErrorCode> remembered_code(const Status& status) noexcept {
  const Remembered& last = remembered();
  if (last.code == ORT_OK || status.ok() || status.code() != last.core) return std::nullopt;
  if (!std::string_view(status.message()).starts_with(last.message)) return std::nullopt;
  return last.code;
}

Status with_ort_code(Status status, OrtErrorCode code) noexcept {
  remember_code(status, code);
  return status;
}

StatusCode core_code(const OrtStatus& status) noexcept {
  return status.core == StatusCode::kOk ? from_ort_code(status.code) : status.core;
}

Status from_ort(OrtStatus* status) noexcept {
  if (status == nullptr) return Status();
  Status result(core_code(*status), status->message);
  release_status(status);
  return result;
}

OrtStatus* check_pointers(const char* function, std::initializer_list<Argument> arguments) noexcept {
  for (const Argument& argument : arguments) {
    if (argument.pointer == nullptr)
      return ort_error(ORT_INVALID_ARGUMENT, "Argument \"{}\" of {} is null.", argument.name, function);
  }
  return nullptr;
}

OrtStatus* not_implemented(const char* name) noexcept {
  return ort_error(ORT_NOT_IMPLEMENTED, "not implemented: {}", name);
}

OrtStatus* ort_api::CreateStatus(OrtErrorCode code, const char* msg) noexcept {
  return make_ort_status(code, msg != nullptr ? msg : "");
}

OrtErrorCode ort_api::GetErrorCode(const OrtStatus* status) noexcept { return status ? status->code : ORT_OK; }

const char* ort_api::GetErrorMessage(const OrtStatus* status) noexcept { return status ? status->message.c_str() : ""; }

void ort_api::ReleaseStatus(OrtStatus* status) noexcept { release_status(status); }

}  // namespace tenon::abi
