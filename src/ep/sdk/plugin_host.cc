#include "ep/sdk/plugin_host.h"

#include <algorithm>
#include <charconv>

namespace tenon::plugin {

namespace {

// "1.31.1": 31. 0 when the text is no version; hosts number their ABI by the minor version.
uint32_t minor_version(const char* text) {
  if (text == nullptr) return 0;
  const std::string_view version(text);
  const size_t dot = version.find('.');
  if (dot == std::string_view::npos) return 0;
  uint32_t minor = 0;
  std::from_chars(version.data() + dot + 1, version.data() + version.size(), minor);
  return minor;
}

// The slot is newer than the oldest host. A table that is shorter than ours is of an older Tenon, which is asked the
// standard functions.
const EpHostApi* find_ep_host_api(const OrtApi& ort, uint32_t version) {
  constexpr uint32_t kFirstVersion = 28;
  if (version < kFirstVersion || ort.GetExperimentalFunction == nullptr) return nullptr;
  const auto get = reinterpret_cast<GetEpHostApiFn>(ort.GetExperimentalFunction(kGetEpHostApi));
  const EpHostApi* api = get != nullptr ? get(kEpHostApiVersion) : nullptr;
  return api != nullptr && api->size_bytes >= sizeof(EpHostApi) ? api : nullptr;
}

}  // namespace

Result<HostApi> HostApi::connect(const OrtApiBase* base) {
  TENON_INVALID_IF(base == nullptr || base->GetApi == nullptr, "The host gives no OrtApiBase.");
  const char* text = base->GetVersionString != nullptr ? base->GetVersionString() : nullptr;
  HostApi host;
  // Asking for a version that the host lacks makes it print an error: start at what its version text says.
  const uint32_t stated = minor_version(text);
  for (uint32_t version = stated == 0 ? kOurApiVersion : std::min(stated, kOurApiVersion); version >= kOldestApiVersion;
       --version) {
    host.ort_ = base->GetApi(version);
    if (host.ort_ == nullptr) continue;
    host.version_ = version;
    break;
  }
  TENON_UNSUPPORTED_IF(host.ort_ == nullptr, "The host's version is {}; this plugin needs ONNX Runtime 1.{} or newer.",
                       text != nullptr ? text : "unknown", kOldestApiVersion);
  host.ep_ = host.ort_->GetEpApi();
  TENON_UNSUPPORTED_IF(host.ep_ == nullptr, "The host (version {}) has no OrtEpApi.", text);
  host.model_editor_ = host.ort_->GetModelEditorApi();
  host.tenon_ = find_ep_host_api(*host.ort_, host.version_);
  return host;
}

OrtErrorCode ort_code(StatusCode code) {
  switch (code) {
    case StatusCode::kOk:
      return ORT_OK;
    case StatusCode::kInvalidArgument:
    case StatusCode::kOutOfRange:
      return ORT_INVALID_ARGUMENT;
    case StatusCode::kUnsupported:
      return ORT_NOT_IMPLEMENTED;
    case StatusCode::kNotFound:
      return ORT_NO_SUCHFILE;
    case StatusCode::kDeviceLost:
      return ORT_ENGINE_ERROR;
    case StatusCode::kInternal:
    case StatusCode::kTimeout:
      return ORT_RUNTIME_EXCEPTION;
    // Never ORT_EP_FAIL: with that code Python's InferenceSession falls back to the CPU without an error.
    case StatusCode::kResourceExhausted:
    case StatusCode::kDeviceError:
    case StatusCode::kCancelled:
      return ORT_FAIL;
  }
  return ORT_FAIL;
}

StatusCode status_code(OrtErrorCode code) {
  switch (code) {
    case ORT_OK:
      return StatusCode::kOk;
    case ORT_INVALID_ARGUMENT:
    case ORT_INVALID_PROTOBUF:
    case ORT_INVALID_GRAPH:
      return StatusCode::kInvalidArgument;
    case ORT_NOT_IMPLEMENTED:
      return StatusCode::kUnsupported;
    case ORT_NO_SUCHFILE:
    case ORT_NO_MODEL:
    case ORT_NOT_FOUND:
      return StatusCode::kNotFound;
    case ORT_ENGINE_ERROR:
      return StatusCode::kDeviceLost;
    case ORT_MODEL_LOAD_CANCELED:
      return StatusCode::kCancelled;
    case ORT_RUNTIME_EXCEPTION:
      return StatusCode::kInternal;
    default:
      return StatusCode::kDeviceError;
  }
}

OrtStatus* HostApi::to_ort_text(StatusCode code, const char* text) const noexcept {
  if (tenon_ != nullptr) return tenon_->CreateStatus(ort_code(code), static_cast<uint32_t>(code), text);
  return ort_->CreateStatus(ort_code(code), text);
}

OrtStatus* HostApi::to_ort(const Status& status) const noexcept {
  if (status.ok()) return nullptr;
  return to_ort_text(status.code(), status.message().c_str());
}

Status HostApi::take(OrtStatus* status, const char* function) const {
  if (status == nullptr) return Status();
  const auto owned = own(status, ort_->ReleaseStatus);
  StatusCode code = status_code(ort_->GetErrorCode(status));
  if (tenon_ != nullptr) {
    const uint32_t number = tenon_->GetStatusCode(status);
    code = number <= static_cast<uint32_t>(StatusCode::kTimeout) ? static_cast<StatusCode>(number) : StatusCode::kOk;
  }
  return make_status(code == StatusCode::kOk ? StatusCode::kDeviceError : code, "{} - from the host's {}",
                     ort_->GetErrorMessage(status), function);
}

HostPtr<OrtKeyValuePairs> HostApi::make_pairs(const TextPairs& pairs) const {
  OrtKeyValuePairs* list = nullptr;
  ort_->CreateKeyValuePairs(&list);
  auto owned = own(list, ort_->ReleaseKeyValuePairs);
  for (const auto& [key, value] : pairs) ort_->AddKeyValuePair(list, key.c_str(), value.c_str());
  return owned;
}

TextPairs HostApi::read_pairs(const OrtKeyValuePairs* pairs) const {
  TextPairs list;
  if (pairs == nullptr) return list;
  const char* const* keys = nullptr;
  const char* const* values = nullptr;
  size_t count = 0;
  ort_->GetKeyValuePairs(pairs, &keys, &values, &count);
  for (size_t i = 0; i < count; ++i) list.emplace_back(keys[i], values[i]);
  return list;
}

Result<TextPairs> HostApi::session_entries(const OrtSessionOptions* options) const {
  if (options == nullptr) return TextPairs();
  OrtKeyValuePairs* entries = nullptr;
  TENON_ORT_TRY(*this, GetSessionOptionsConfigEntries, options, &entries);
  const auto owned = own(entries, ort_->ReleaseKeyValuePairs);
  return read_pairs(entries);
}

void HostApi::log(const OrtLogger* logger, OrtLoggingLevel level, const std::string& message) const noexcept {
  OrtLoggingLevel lowest = ORT_LOGGING_LEVEL_VERBOSE;
  if (logger == nullptr) return;
  if (OrtStatus* failed = ort_->Logger_GetLoggingSeverityLevel(logger, &lowest)) return ort_->ReleaseStatus(failed);
  if (level < lowest) return;
  if (OrtStatus* failed = ort_->Logger_LogMessage(logger, level, message.c_str(), ORT_TSTR("tenon"), 0, "plugin"))
    ort_->ReleaseStatus(failed);
}

namespace {

struct ElementTypePair {
  ONNXTensorElementDataType ort;
  DataType tenon;
};
// Up to complex and float8 both number as ONNX does; the last four differ.
constexpr ElementTypePair kRenumbered[] = {
    {ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT4E2M1, DataType::kFloat4E2M1},
    {ONNX_TENSOR_ELEMENT_DATA_TYPE_UINT2, DataType::kUint2},
    {ONNX_TENSOR_ELEMENT_DATA_TYPE_INT2, DataType::kInt2},
    {ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT8E8M0, DataType::kFloat8E8M0},
};
static_assert(static_cast<int>(ONNX_TENSOR_ELEMENT_DATA_TYPE_INT4) == static_cast<int>(DataType::kInt4));

}  // namespace

DataType data_type(ONNXTensorElementDataType type) {
  for (const ElementTypePair& pair : kRenumbered)
    if (pair.ort == type) return pair.tenon;
  return type >= 0 && type <= ONNX_TENSOR_ELEMENT_DATA_TYPE_INT4 ? static_cast<DataType>(type) : DataType::kUndefined;
}

ONNXTensorElementDataType ort_element_type(DataType type) {
  for (const ElementTypePair& pair : kRenumbered)
    if (pair.tenon == type) return pair.ort;
  return type <= DataType::kInt4 ? static_cast<ONNXTensorElementDataType>(type)
                                 : ONNX_TENSOR_ELEMENT_DATA_TYPE_UNDEFINED;
}

}  // namespace tenon::plugin
