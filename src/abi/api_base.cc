// The library's entry: OrtGetApiBase, the versions that it serves, and its version and build text.
#include <tenon/onnxruntime_c_api.h>
#include <tenon/session.h>

#include <cstdio>
#include <string>

#include "abi/entry.h"
#include "abi/objects/slots.h"
#include "abi/objects/status.h"

namespace tenon::abi {
namespace {

#define TENON_TEXT_(x) #x
#define TENON_TEXT(x) TENON_TEXT_(x)

// Programs compare this with what they were built for, so it is ONNX Runtime's version and nothing more.
const char* ORT_API_CALL version_string() noexcept { return "1." TENON_TEXT(ORT_API_VERSION) ".0"; }

const OrtApi* ORT_API_CALL api_of_version(uint32_t version) noexcept {
  if (version >= 1 && version <= ORT_API_VERSION) return &kOrtApi;
  // Not the log: it may not be set up, and a program that gets null here has nothing else to go by.
  std::fprintf(
      stderr,
      "The requested API version [%u] is not available, only API versions [1, %u] are supported in this build. "
      "Tenon implements ORT version %s.\n",
      static_cast<unsigned>(version), static_cast<unsigned>(ORT_API_VERSION), version_string());
  return nullptr;
}

constexpr OrtApiBase kApiBase = {&api_of_version, &version_string};

}  // namespace

const OrtApiBase* api_base() noexcept { return &kApiBase; }

OrtStatus* append_cpu(OrtSessionOptions* options, int) noexcept {
  return check_pointers("OrtSessionOptionsAppendExecutionProvider_CPU", {{"options", options}});
}

const char* ort_api::GetBuildInfoString() noexcept {
  static const std::string text = "ORT Build Info: Tenon " + std::string(tenon::version()) +
                                  ", ONNX Runtime API version " TENON_TEXT(ORT_API_VERSION);
  return text.c_str();
}

const OrtModelEditorApi* ort_api::GetModelEditorApi() noexcept { return &kOrtModelEditorApi; }
const OrtCompileApi* ort_api::GetCompileApi() noexcept { return &kOrtCompileApi; }
const OrtEpApi* ort_api::GetEpApi() noexcept { return &kOrtEpApi; }
const OrtInteropApi* ort_api::GetInteropApi() noexcept { return &kOrtInteropApi; }
const OrtModelPackageApi* ort_api::GetModelPackageApi() noexcept { return &kOrtModelPackageApi; }

}  // namespace tenon::abi

const OrtApiBase* ORT_API_CALL OrtGetApiBase(void) noexcept { return tenon::abi::api_base(); }

OrtStatus* ORT_API_CALL OrtSessionOptionsAppendExecutionProvider_CPU(OrtSessionOptions* options,
                                                                     int use_arena) noexcept {
  return tenon::abi::append_cpu(options, use_arena);
}
