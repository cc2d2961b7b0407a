// The memory in which a session wants its inputs and leaves its outputs (S1.8); session_ep_devices.cc has the devices.
#include "abi/objects/slots.h"
#include "abi/objects/status.h"
#include "abi/session.h"

namespace tenon::abi {
namespace {

OrtStatus* fill_memory_infos(const char* function, const char* what, const OrtSession* session,
                             const OrtMemoryInfo** infos, size_t count,
                             std::vector<OrtMemoryInfo> OrtSession::* known) noexcept {
  if (OrtStatus* bad = check_pointers(function, {{"session", session}, {"infos", infos}})) return bad;
  const std::vector<OrtMemoryInfo>& all = session->*known;
  if (OrtStatus* bad = check_room(what, all.size(), count)) return bad;
  for (size_t i = 0; i < count; ++i) infos[i] = i < all.size() ? &all[i] : nullptr;
  return nullptr;
}

}  // namespace

OrtStatus* check_room(const char* what, size_t known, size_t room) noexcept {
  if (known <= room) return nullptr;
  return ort_error(ORT_INVALID_ARGUMENT, "Number of {} {} exceeds the provided size of {}", what, known, room);
}

OrtStatus* ort_api::SessionGetMemoryInfoForInputs(const OrtSession* session, const OrtMemoryInfo** inputs_memory_info,
                                                  size_t num_inputs) noexcept {
  return fill_memory_infos("SessionGetMemoryInfoForInputs", "inputs", session, inputs_memory_info, num_inputs,
                           &OrtSession::input_memory);
}

OrtStatus* ort_api::SessionGetMemoryInfoForOutputs(const OrtSession* session, const OrtMemoryInfo** outputs_memory_info,
                                                   size_t num_outputs) noexcept {
  return fill_memory_infos("SessionGetMemoryInfoForOutputs", "outputs", session, outputs_memory_info, num_outputs,
                           &OrtSession::output_memory);
}

}  // namespace tenon::abi
