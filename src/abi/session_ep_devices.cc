// SessionGetEpDeviceForInputs and ...ForOutputs: the devices on which a program should allocate (S1.8).
#include "abi/objects/slots.h"
#include "abi/objects/status.h"
#include "abi/session.h"
#include "ep/host/plugin_registry.h"

namespace tenon::abi {

namespace {

bool has_memory(const OrtEpDevice& device, const MemorySpace& space) {
  const auto same_device = [&](const std::optional<OrtMemoryInfo>& info) {
    if (!info) return false;
    const MemorySpace known = to_memory_space(*info);
    return known.device_type == space.device_type && known.vendor_id == space.vendor_id &&
           known.device_id == space.device_id;
  };
  return same_device(device.default_memory) || same_device(device.host_accessible_memory);
}

// The device of the EP with that memory; the EP's first, when its memory is the host's.
const OrtEpDevice* find_device(const ValueSpace& value) {
  const OrtEpDevice* first = nullptr;
  for (const OrtEpDevice* device : PluginRegistry::instance().devices()) {
    if (device->ep_name != value.ep_name) continue;
    if (has_memory(*device, value.space)) return device;
    if (first == nullptr) first = device;
  }
  return first;
}

OrtStatus* fill_devices(const char* function, const char* what, const OrtSession* session, const OrtEpDevice** devices,
                        size_t count, std::span<const ValueSpace> (Session::*spaces)() const) noexcept {
  if (OrtStatus* bad = check_pointers(function, {{"session", session}, {"devices", devices}})) return bad;
  return guarded([&]() -> OrtStatus* {
    const std::span<const ValueSpace> known = (session->core().*spaces)();
    if (OrtStatus* bad = check_room(what, known.size(), count)) return bad;
    for (size_t i = 0; i < count; ++i) devices[i] = i < known.size() ? find_device(known[i]) : nullptr;
    return nullptr;
  });
}

}  // namespace

OrtStatus* ort_api::SessionGetEpDeviceForInputs(const OrtSession* session, const OrtEpDevice** inputs_ep_devices,
                                                size_t num_inputs) noexcept {
  return fill_devices("SessionGetEpDeviceForInputs", "inputs", session, inputs_ep_devices, num_inputs,
                      &Session::input_spaces);
}

OrtStatus* ort_api::SessionGetEpDeviceForOutputs(const OrtSession* session, const OrtEpDevice** outputs_ep_devices,
                                                 size_t num_outputs) noexcept {
  return fill_devices("SessionGetEpDeviceForOutputs", "outputs", session, outputs_ep_devices, num_outputs,
                      &Session::output_spaces);
}

}  // namespace tenon::abi
