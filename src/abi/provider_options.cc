// Execution providers that the reference has as separate libraries of its own, and that are no part of this one: their
// options cannot be made, and appending them fails, with the codes and texts of the reference where such a library is
// missing. Plugins (RegisterExecutionProviderLibrary) are how other providers come in. The Azure provider is in every
// CPU package of the reference, and programs name it: appending it succeeds there and here, and changes nothing.
#include <algorithm>
#include <array>
#include <cstring>
#include <string>
#include <string_view>

#include "abi/objects/session_options.h"
#include "abi/objects/slots.h"
#include "abi/objects/status.h"
#include "base/log.h"

namespace tenon::abi {

namespace {

// The short and the long name of each provider that SessionOptionsAppendExecutionProvider knows.
struct ProviderName {
  std::string_view name;
  std::string_view type;
};
constexpr std::array<ProviderName, 13> kProviderNames = {{{"DML", "DmlExecutionProvider"},
                                                          {"QNN", "QNNExecutionProvider"},
                                                          {"OpenVINO", "OpenVINOExecutionProvider"},
                                                          {"SNPE", "SNPEExecutionProvider"},
                                                          {"XNNPACK", "XnnpackExecutionProvider"},
                                                          {"WEBNN", "WebNNExecutionProvider"},
                                                          {"WebGPU", "WebGpuExecutionProvider"},
                                                          {"AZURE", "AzureExecutionProvider"},
                                                          {"JS", "JsExecutionProvider"},
                                                          {"VitisAI", "VitisAIExecutionProvider"},
                                                          {"CoreML", "CoreMLExecutionProvider"},
                                                          {"MIGraphX", "MIGraphXExecutionProvider"},
                                                          {"CPU", "CPUExecutionProvider"}}};

OrtStatus* unknown_provider(std::string_view name) {
  std::string known;
  for (const ProviderName& one : kProviderNames) {
    if (!known.empty()) known += &one == &kProviderNames.back() ? ", and " : ", ";
    known.append("'").append(one.name).append("'/'").append(one.type).append("'");
  }
  return ort_error(ORT_INVALID_ARGUMENT, "Unknown provider name '{}'. Currently supported values are {}.",
                   std::string(name), known);
}

OrtStatus* not_enabled(const char* provider) {
  return ort_error(ORT_FAIL, "{} execution provider is not enabled in this build.", provider);
}

// Its text ends in a space there.
OrtStatus* rocm_not_enabled() {
  return make_ort_status(ORT_FAIL, "ROCM execution provider is not enabled in this build. ");
}

OrtStatus* no_library(const char* function) {
  return ort_error(ORT_FAIL, "{}: Failed to load shared library", function);
}

OrtStatus* no_gpu() {
  return make_ort_status(ORT_FAIL, "CUDA execution provider is either not enabled or not available.");
}

constexpr size_t kMostKeyLength = 960;  // the reference's

// Options of the two providers that are taken have no effect, and have to be well-formed all the same.
OrtStatus* check_options(const char* const* keys, const char* const* values, size_t count) {
  for (size_t i = 0; i < count; ++i) {
    for (const char* const* texts : {keys, values})
      if (texts == nullptr || texts[i] == nullptr || *texts[i] == '\0')
        return make_ort_status(ORT_INVALID_ARGUMENT, "Provider options key/value cannot be empty");
    if (const size_t length = std::strlen(keys[i]); length > kMostKeyLength)
      return ort_error(ORT_INVALID_ARGUMENT,
                       "Provider option key length is {} but the limit is {}. Provider option key: {}", length,
                       kMostKeyLength, keys[i]);
  }
  return nullptr;
}

}  // namespace

OrtStatus* ort_api::SessionOptionsAppendExecutionProvider(OrtSessionOptions* options, const char* provider_name,
                                                          const char* const* provider_options_keys,
                                                          const char* const* provider_options_values,
                                                          size_t num_keys) noexcept {
  if (OrtStatus* bad = check_pointers("SessionOptionsAppendExecutionProvider",
                                      {{"options", options}, {"provider_name", provider_name}}))
    return bad;
  return guarded([&]() -> OrtStatus* {
    const std::string_view name = provider_name;
    if (OrtStatus* bad = check_options(provider_options_keys, provider_options_values, num_keys)) return bad;
    if (name == "NvTensorRtRtx" || name == "NvTensorRTRTXExecutionProvider")
      return ort_error(ORT_INVALID_ARGUMENT,
                       "The '{}' execution provider is no longer built into ONNX Runtime. Use the NVIDIA TensorRT RTX "
                       "plugin EP instead: register its library with RegisterExecutionProviderLibrary, select an "
                       "OrtEpDevice from GetEpDevices, and append it with SessionOptionsAppendExecutionProvider_V2.",
                       name);
    const auto found = std::find_if(kProviderNames.begin(), kProviderNames.end(),
                                    [&](const ProviderName& one) { return name == one.name || name == one.type; });
    if (found == kProviderNames.end()) return unknown_provider(name);
    // The CPU EP is always there and always last, so asking for it changes nothing.
    if (found->name == "CPU") return nullptr;
    if (found->name == "AZURE") {
      if (options->azure_eps++ == 0)
        log_warning("dispatch", "{} is taken, and runs nothing: it has no operators of ONNX.", found->type);
      return nullptr;
    }
    return ort_error(ORT_INVALID_ARGUMENT, "{} execution provider is not supported in this build. ", provider_name);
  });
}

OrtStatus* ort_api::SessionOptionsAppendExecutionProvider_CUDA(OrtSessionOptions*,
                                                               const OrtCUDAProviderOptions*) noexcept {
  return no_library("OrtSessionOptionsAppendExecutionProvider_Cuda");
}
OrtStatus* ort_api::SessionOptionsAppendExecutionProvider_CUDA_V2(OrtSessionOptions*,
                                                                  const OrtCUDAProviderOptionsV2*) noexcept {
  return no_library("OrtSessionOptionsAppendExecutionProvider_Cuda");
}
OrtStatus* ort_api::SessionOptionsAppendExecutionProvider_TensorRT(OrtSessionOptions*,
                                                                   const OrtTensorRTProviderOptions*) noexcept {
  return no_library("OrtSessionOptionsAppendExecutionProvider_TensorRT");
}
OrtStatus* ort_api::SessionOptionsAppendExecutionProvider_TensorRT_V2(OrtSessionOptions*,
                                                                      const OrtTensorRTProviderOptionsV2*) noexcept {
  return no_library("OrtSessionOptionsAppendExecutionProvider_TensorRT");
}
OrtStatus* ort_api::SessionOptionsAppendExecutionProvider_OpenVINO(OrtSessionOptions*,
                                                                   const OrtOpenVINOProviderOptions*) noexcept {
  return no_library("SessionOptionsAppendExecutionProvider_OpenVINO");
}
// The reference keeps the options although it cannot load the provider.
OrtStatus* ort_api::SessionOptionsAppendExecutionProvider_OpenVINO_V2(OrtSessionOptions* options,
                                                                      const char* const* keys,
                                                                      const char* const* values,
                                                                      size_t count) noexcept {
  if (OrtStatus* bad = check_options(keys, values, count)) return bad;
  return guarded([&] {
    for (size_t i = 0; options != nullptr && i < count; ++i)
      options->config_entries.set(std::string("ep.openvinoexecutionprovider.") + keys[i], values[i]);
    return no_library("SessionOptionsAppendExecutionProvider_OpenVINO_V2");
  });
}
OrtStatus* ort_api::SessionOptionsAppendExecutionProvider_VitisAI(OrtSessionOptions*, const char* const* keys,
                                                                  const char* const* values, size_t count) noexcept {
  if (OrtStatus* bad = check_options(keys, values, count)) return bad;
  return no_library("SessionOptionsAppendExecutionProvider_VitisAI");
}
OrtStatus* ort_api::SessionOptionsAppendExecutionProvider_MIGraphX(OrtSessionOptions*,
                                                                   const OrtMIGraphXProviderOptions*) noexcept {
  return no_library("SessionOptionsAppendExecutionProvider_MIGraphX");
}
OrtStatus* ort_api::SessionOptionsAppendExecutionProvider_ROCM(OrtSessionOptions*,
                                                               const OrtROCMProviderOptions*) noexcept {
  return rocm_not_enabled();
}
OrtStatus* ort_api::SessionOptionsAppendExecutionProvider_CANN(OrtSessionOptions*,
                                                               const OrtCANNProviderOptions*) noexcept {
  return not_enabled("CANN");
}
OrtStatus* ort_api::SessionOptionsAppendExecutionProvider_Dnnl(OrtSessionOptions*,
                                                               const OrtDnnlProviderOptions*) noexcept {
  return not_enabled("oneDNN");
}

// No options object of these providers can exist, so the functions that take one have none to work on.
OrtStatus* ort_api::CreateCUDAProviderOptions(OrtCUDAProviderOptionsV2** out) noexcept {
  clear(out);
  return not_enabled("CUDA");
}
OrtStatus* ort_api::UpdateCUDAProviderOptions(OrtCUDAProviderOptionsV2*, const char* const*, const char* const*,
                                              size_t) noexcept {
  return not_enabled("CUDA");
}
OrtStatus* ort_api::UpdateCUDAProviderOptionsWithValue(OrtCUDAProviderOptionsV2*, const char*, void*) noexcept {
  return not_enabled("CUDA");
}
OrtStatus* ort_api::GetCUDAProviderOptionsAsString(const OrtCUDAProviderOptionsV2*, OrtAllocator*,
                                                   char** ptr) noexcept {
  clear(ptr);
  return not_enabled("CUDA");
}
OrtStatus* ort_api::GetCUDAProviderOptionsByName(const OrtCUDAProviderOptionsV2*, const char*, void** ptr) noexcept {
  clear(ptr);
  return not_enabled("CUDA");
}
void ort_api::ReleaseCUDAProviderOptions(OrtCUDAProviderOptionsV2*) noexcept {}

OrtStatus* ort_api::CreateTensorRTProviderOptions(OrtTensorRTProviderOptionsV2** out) noexcept {
  clear(out);
  return not_enabled("TensorRT");
}
OrtStatus* ort_api::UpdateTensorRTProviderOptions(OrtTensorRTProviderOptionsV2*, const char* const*, const char* const*,
                                                  size_t) noexcept {
  return not_enabled("TensorRT");
}
OrtStatus* ort_api::UpdateTensorRTProviderOptionsWithValue(OrtTensorRTProviderOptionsV2*, const char*, void*) noexcept {
  return not_enabled("TensorRT");
}
OrtStatus* ort_api::GetTensorRTProviderOptionsAsString(const OrtTensorRTProviderOptionsV2*, OrtAllocator*,
                                                       char** ptr) noexcept {
  clear(ptr);
  return not_enabled("TensorRT");
}
OrtStatus* ort_api::GetTensorRTProviderOptionsByName(const OrtTensorRTProviderOptionsV2*, const char*,
                                                     void** ptr) noexcept {
  clear(ptr);
  return not_enabled("TensorRT");
}
void ort_api::ReleaseTensorRTProviderOptions(OrtTensorRTProviderOptionsV2*) noexcept {}

OrtStatus* ort_api::CreateCANNProviderOptions(OrtCANNProviderOptions** out) noexcept {
  clear(out);
  return not_enabled("CANN");
}
OrtStatus* ort_api::UpdateCANNProviderOptions(OrtCANNProviderOptions*, const char* const*, const char* const*,
                                              size_t) noexcept {
  return not_enabled("CANN");
}
OrtStatus* ort_api::GetCANNProviderOptionsAsString(const OrtCANNProviderOptions*, OrtAllocator*, char** ptr) noexcept {
  clear(ptr);
  return not_enabled("CANN");
}
void ort_api::ReleaseCANNProviderOptions(OrtCANNProviderOptions*) noexcept {}

OrtStatus* ort_api::CreateDnnlProviderOptions(OrtDnnlProviderOptions** out) noexcept {
  clear(out);
  return not_enabled("oneDNN");
}
OrtStatus* ort_api::UpdateDnnlProviderOptions(OrtDnnlProviderOptions*, const char* const*, const char* const*,
                                              size_t) noexcept {
  return not_enabled("oneDNN");
}
OrtStatus* ort_api::GetDnnlProviderOptionsAsString(const OrtDnnlProviderOptions*, OrtAllocator*, char** ptr) noexcept {
  clear(ptr);
  return not_enabled("oneDNN");
}
void ort_api::ReleaseDnnlProviderOptions(OrtDnnlProviderOptions*) noexcept {}

OrtStatus* ort_api::CreateROCMProviderOptions(OrtROCMProviderOptions** out) noexcept {
  clear(out);
  return rocm_not_enabled();
}
OrtStatus* ort_api::UpdateROCMProviderOptions(OrtROCMProviderOptions*, const char* const*, const char* const*,
                                              size_t) noexcept {
  return rocm_not_enabled();
}
OrtStatus* ort_api::GetROCMProviderOptionsAsString(const OrtROCMProviderOptions*, OrtAllocator*, char** ptr) noexcept {
  clear(ptr);
  return rocm_not_enabled();
}
void ort_api::ReleaseROCMProviderOptions(OrtROCMProviderOptions*) noexcept {}

OrtStatus* ort_api::GetCurrentGpuDeviceId(int*) noexcept { return no_gpu(); }
OrtStatus* ort_api::SetCurrentGpuDeviceId(int) noexcept { return no_gpu(); }

OrtStatus* ort_api::GetExecutionProviderApi(const char* provider_name, uint32_t, const void** provider_api) noexcept {
  clear(provider_api);
  if (OrtStatus* bad =
          check_pointers("GetExecutionProviderApi", {{"provider_name", provider_name}, {"provider_api", provider_api}}))
    return bad;
  return make_ort_status(ORT_INVALID_ARGUMENT, "Specified provider is not supported.");
}

// There is no training; null is how the ABI says so.
const OrtTrainingApi* ort_api::GetTrainingApi(uint32_t) noexcept { return nullptr; }

}  // namespace tenon::abi
