#include "ep/host/ep_host_api.h"

#include "abi/objects/run_options.h"
#include "abi/objects/status.h"
#include "abi/objects/view_arguments.h"
#include "ep/host/kernel_context.h"

namespace tenon::abi {

namespace {

// Null for a size that this host knows.
OrtStatus* check_size(const char* kind, size_t size_bytes, size_t first, size_t ours) noexcept {
  if (size_bytes >= first && size_bytes <= ours) return nullptr;
  return ort_error(ORT_INVALID_ARGUMENT, "The EP's {} has {} bytes; this host knows {} to {}.", kind, size_bytes, first,
                   ours);
}

OrtStatus* ORT_API_CALL kernel_tensors(const OrtKernelContext* context, size_t size_bytes,
                                       const KernelTensors** out) noexcept {
  clear(out);
  if (context == nullptr) return null_argument("context");
  if (out == nullptr) return null_argument("out");
  if (OrtStatus* bad = check_size("KernelTensors", size_bytes, kFirstKernelTensorsBytes, sizeof(KernelTensors)))
    return bad;
  if (context->run == nullptr)
    return ort_error(ORT_INVALID_ARGUMENT, "The kernel context is used outside of the kernel's computation.");
  *out = &context->tensors;
  return nullptr;
}

OrtStatus* ORT_API_CALL run_fences(const OrtRunOptions* options, size_t size_bytes, const RunFences** out) noexcept {
  clear(out);
  if (options == nullptr) return null_argument("options");
  if (out == nullptr) return null_argument("out");
  if (OrtStatus* bad = check_size("RunFences", size_bytes, kFirstRunFencesBytes, sizeof(RunFences))) return bad;
  options->fences_asked = true;
  *out = options->fences;
  return nullptr;
}

OrtStatus* ORT_API_CALL create_status(OrtErrorCode code, uint32_t status_code, const char* message) noexcept {
  if (status_code == 0) return nullptr;
  const bool known = status_code <= static_cast<uint32_t>(StatusCode::kTimeout);
  return make_ort_status(code, message != nullptr ? message : "",
                         known ? static_cast<StatusCode>(status_code) : StatusCode::kOk);
}

uint32_t ORT_API_CALL status_code(const OrtStatus* status) noexcept {
  return status == nullptr ? 0 : static_cast<uint32_t>(core_code(*status));
}

}  // namespace

const EpHostApi* ep_host_api(uint32_t version) noexcept {
  static constexpr EpHostApi kApi = {.size_bytes = sizeof(EpHostApi),
                                     .version = kEpHostApiVersion,
                                     .KernelContext_GetTensors = &kernel_tensors,
                                     .RunOptions_GetFences = &run_fences,
                                     .CreateStatus = &create_status,
                                     .GetStatusCode = &status_code};
  return version == 0 ? nullptr : &kApi;
}

}  // namespace tenon::abi
