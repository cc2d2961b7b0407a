// Where a session wants its inputs and leaves its outputs (S1.8).
#include "abi/ep_device.h"
#include "abi/session.h"
#include "abi/slots.h"
#include "abi/status.h"

namespace tenon::abi {
namespace {

OrtStatus* fill_memory_infos(const char* function, const OrtSession* session, const OrtMemoryInfo** infos, size_t count,
                             std::vector<OrtMemoryInfo> OrtSession::* known) noexcept {
  if (OrtStatus* bad = check_pointers(function, {{"session", session}, {"infos", infos}})) return bad;
  const std::vector<OrtMemoryInfo>& all = session->*known;
  for (size_t i = 0; i < count; ++i) infos[i] = i < all.size() ? &all[i] : nullptr;
  return nullptr;
}

bool has_memory(const OrtEpDevice& device, const MemoryPlace& place) {
  for (const auto* memory : {&device.default_memory, &device.host_accessible_memory}) {
    if (!memory->has_value()) continue;
    const MemoryPlace offered = to_place(**memory);
    if (offered.device_type == place.device_type && offered.device_id == place.device_id &&
        offered.vendor_id == place.vendor_id && offered.kind == place.kind)
      return true;
  }
  return false;
}

// The device of that EP whose memory it is, or else the EP's first one.
const OrtEpDevice* find_device(std::span<const OrtEpDevice* const> all, const ValuePlace& value) {
  const OrtEpDevice* first = nullptr;
  for (const OrtEpDevice* device : all) {
    if (device->ep_name != value.ep_name) continue;
    if (has_memory(*device, value.place)) return device;
    if (first == nullptr) first = device;
  }
  return first;
}

OrtStatus* fill_ep_devices(const char* function, const OrtSession* session, const OrtEpDevice** devices, size_t count,
                           std::span<const ValuePlace> (Session::*places)() const) noexcept {
  if (OrtStatus* bad = check_pointers(function, {{"session", session}, {"ep_devices", devices}})) return bad;
  for (size_t i = 0; i < count; ++i) devices[i] = nullptr;
  const OrtEpDevice* const* all = nullptr;
  size_t known = 0;
  if (OrtStatus* bad = ort_api::GetEpDevices(session->env.get(), &all, &known)) return bad;
  const std::span<const ValuePlace> values = (session->core().*places)();
  for (size_t i = 0; i < count && i < values.size(); ++i) devices[i] = find_device({all, known}, values[i]);
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

OrtStatus* ort_api::SessionGetEpDeviceForInputs(const OrtSession* session, const OrtEpDevice** inputs_ep_devices,
                                                size_t num_inputs) noexcept {
  return fill_ep_devices("SessionGetEpDeviceForInputs", session, inputs_ep_devices, num_inputs, &Session::input_places);
}

OrtStatus* ort_api::SessionGetEpDeviceForOutputs(const OrtSession* session, const OrtEpDevice** outputs_ep_devices,
                                                 size_t num_outputs) noexcept {
  return fill_ep_devices("SessionGetEpDeviceForOutputs", session, outputs_ep_devices, num_outputs,
                         &Session::output_places);
}

}  // namespace tenon::abi
