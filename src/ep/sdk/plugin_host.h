// The host's function tables for a plugin, limited to the API version that the host has.
//
// Ownership: borrows the host's tables, which live as long as the host library.
// Threads: immutable after connect(); every function from any thread.
// Errors: no exception crosses the ABI: what a plugin function does runs inside guarded().
#pragma once

#include <tenon/onnxruntime_c_api.h>
#include <tenon/types.h>

#include <exception>
#include <memory>
#include <new>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/fault.h"
#include "base/status.h"
#include "ep/api/ep_host_api.h"

namespace tenon::plugin {

inline constexpr uint32_t kOurApiVersion = ORT_API_VERSION;
inline constexpr uint32_t kOldestApiVersion = 24;  // the oldest host that plugins of the SDK load in

// The deleter of an object that the other side releases with a function of its table.
template <typename T>
struct HostRelease {
  void(ORT_API_CALL* release)(T*) = nullptr;
  void operator()(T* object) const {
    if (object != nullptr) release(object);
  }
};
template <typename T>
using HostPtr = std::unique_ptr<T, HostRelease<T>>;

using TextPairs = std::vector<std::pair<std::string, std::string>>;

class HostApi {
 public:
  HostApi() = default;
  // Errors: kUnsupported for a host below kOldestApiVersion.
  static Result<HostApi> connect(const OrtApiBase* base);

  // min(ours, the host's): what every struct that we hand out declares, and the highest version of a slot that may be
  // read.
  uint32_t version() const { return version_; }
  const OrtApi& ort() const { return *ort_; }
  const OrtEpApi& ep() const { return *ep_; }
  const OrtModelEditorApi* model_editor() const { return model_editor_; }
  // Null in every host but Tenon's.
  const EpHostApi* tenon() const { return tenon_; }

  // Null for OK. The status is the host's to release.
  OrtStatus* to_ort(const Status& status) const noexcept;
  // Releases `status` and says which of the host's functions gave it.
  Status take(OrtStatus* status, const char* function) const;

  HostPtr<OrtKeyValuePairs> make_pairs(const TextPairs& pairs) const;
  // Null gives an empty list.
  TextPairs read_pairs(const OrtKeyValuePairs* pairs) const;
  // All config entries of a session's options.
  Result<TextPairs> session_entries(const OrtSessionOptions* options) const;
  // Null loggers and messages below the logger's level are dropped.
  void log(const OrtLogger* logger, OrtLoggingLevel level, const std::string& message) const noexcept;

  template <typename T>
  HostPtr<T> own(T* object, void(ORT_API_CALL* release)(T*)) const {
    return HostPtr<T>(object, HostRelease<T>{release});
  }

  // Runs `function` (Status()) behind the ABI: what it throws becomes a status too.
  template <typename Function>
  OrtStatus* guarded(Function&& function) const noexcept {
    try {
      return to_ort(function());
    } catch (const std::bad_alloc&) {
      return to_ort_text(StatusCode::kResourceExhausted, "Host memory is exhausted.");
    } catch (const std::exception& error) {
      return to_ort_text(StatusCode::kInternal, error.what());
    } catch (...) {
      return to_ort_text(StatusCode::kInternal, "An unknown exception was thrown.");
    }
  }

 private:
  OrtStatus* to_ort_text(StatusCode code, const char* text) const noexcept;

  const OrtApi* ort_ = nullptr;
  const OrtEpApi* ep_ = nullptr;
  const OrtModelEditorApi* model_editor_ = nullptr;
  const EpHostApi* tenon_ = nullptr;
  uint32_t version_ = 0;
};

OrtErrorCode ort_code(StatusCode code);
StatusCode status_code(OrtErrorCode code);

// The element type, or kUndefined for a value outside the enum. The two enums number some types differently.
DataType data_type(ONNXTensorElementDataType type);
ONNXTensorElementDataType ort_element_type(DataType type);

}  // namespace tenon::plugin

// Calls a function of the host's OrtApi or OrtEpApi that returns a status; each use is a fault point.
#define TENON_ORT_TRY(host, function, ...)                                 \
  do {                                                                     \
    TENON_FAULT_POINT("host." #function);                                  \
    TENON_TRY((host).take((host).ort().function(__VA_ARGS__), #function)); \
  } while (false)
#define TENON_ORT_EP_TRY(host, function, ...)                             \
  do {                                                                    \
    TENON_FAULT_POINT("host." #function);                                 \
    TENON_TRY((host).take((host).ep().function(__VA_ARGS__), #function)); \
  } while (false)
// The same of a table that only Tenon's host has: host.tenon() is not null.
#define TENON_EP_HOST_TRY(host, function, ...)                                \
  do {                                                                        \
    TENON_FAULT_POINT("host." #function);                                     \
    TENON_TRY((host).take((host).tenon()->function(__VA_ARGS__), #function)); \
  } while (false)
