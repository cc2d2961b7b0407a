// Where a session wants its inputs and leaves its outputs (S1.8).
#include "abi/ep_device.h"
#include "abi/session.h"
#include "abi/slots.h"
#include "abi/status.h"

namespace tenon::abi {
namespace {

OrtStatus* fill_memory_infos(const char* function, const OrtSession* session, const OrtMemoryInfo** infos, size_t count,
                             std::span<const ValueInfo> (Session::*values)() const) noexcept {
  if (OrtStatus* bad = check_pointers(function, {{"session", session}, {"infos", infos}})) return bad;
  const size_t known = (session->core().*values)().size();
  for (size_t i = 0; i < count; ++i) infos[i] = i < known ? &session->cpu_memory : nullptr;
  return nullptr;
}

}  // namespace

OrtStatus* ort_api::SessionGetMemoryInfoForInputs(const OrtSession* session, const OrtMemoryInfo** inputs_memory_info,
                                                  size_t num_inputs) noexcept {
  return fill_memory_infos("SessionGetMemoryInfoForInputs", session, inputs_memory_info, num_inputs, &Session::inputs);
}

OrtStatus* ort_api::SessionGetMemoryInfoForOutputs(const OrtSession* session, const OrtMemoryInfo** outputs_memory_info,
                                                   size_t num_outputs) noexcept {
  return fill_memory_infos("SessionGetMemoryInfoForOutputs", session, outputs_memory_info, num_outputs,
                           &Session::outputs);
}

}  // namespace tenon::abi
