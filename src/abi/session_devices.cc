// The memory in which a session wants its inputs and leaves its outputs (S1.8); session_ep_devices.cc has the devices.
#include <algorithm>

#include "abi/objects/slots.h"
#include "abi/objects/status.h"
#include "abi/session.h"

namespace tenon::abi {
namespace {

OrtStatus* fill_memory_infos(const char* function, const OrtSession* session, const OrtMemoryInfo** infos, size_t count,
                             std::vector<OrtMemoryInfo> OrtSession::* known) noexcept {
  if (OrtStatus* bad = check_pointers(function, {{"session", session}, {"infos", infos}})) return bad;
  const std::vector<OrtMemoryInfo>& all = session->*known;
  // As the reference does: what there is, and nothing beyond it.
  for (size_t i = 0; i < std::min(count, all.size()); ++i) infos[i] = &all[i];
  return nullptr;
}

}  // namespace

OrtStatus* ort_api::SessionGetMemoryInfoForInputs(const OrtSession* session, const OrtMemoryInfo** inputs_memory_info,
                                                  size_t num_inputs) noexcept {
  return fill_memory_infos("SessionGetMemoryInfoForInputs", session, inputs_memory_info, num_inputs,
                           &OrtSession::input_memory);
}

OrtStatus* ort_api::SessionGetMemoryInfoForOutputs(const OrtSession* session, const OrtMemoryInfo** outputs_memory_info,
                                                   size_t num_outputs) noexcept {
  return fill_memory_infos("SessionGetMemoryInfoForOutputs", session, outputs_memory_info, num_outputs,
                           &OrtSession::output_memory);
}

}  // namespace tenon::abi
