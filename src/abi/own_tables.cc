#include "abi/own_tables.h"

#include <string_view>

#include "abi/objects/slots.h"
#include "ep/host/ep_host_api.h"

namespace tenon::abi {

// ONNX Runtime's experimental functions are none of ours; null is how the ABI says so.
OrtExperimentalFnPtr ort_api::GetExperimentalFunction(const char* name) noexcept {
  const std::string_view wanted = name != nullptr ? name : "";
  if (wanted == TENON_GET_COPY_LEDGER_API) return reinterpret_cast<OrtExperimentalFnPtr>(&copy_ledger_api);
  if (wanted == TENON_GET_TIMELINE_API) return reinterpret_cast<OrtExperimentalFnPtr>(&timeline_api);
  if (wanted == kGetEpHostApi) return reinterpret_cast<OrtExperimentalFnPtr>(&ep_host_api);
  return nullptr;
}

}  // namespace tenon::abi
