// The hardware that there is, what providers say of it, streams, and functions of the program's that choose devices.
#include "options.h"
#include "value.h"

namespace tenon::python {
namespace {

std::vector<HardwareDevice> hardware_devices() {
  size_t count = 0;
  check(api().GetNumHardwareDevices(env(), &count));
  std::vector<const OrtHardwareDevice*> devices(count);
  check(api().GetHardwareDevices(env(), devices.data(), count));
  std::vector<HardwareDevice> made;
  for (const OrtHardwareDevice* device : devices) made.push_back({device});
  return made;
}

nb::object text_or_none(char* text) { return text == nullptr ? nb::none() : nb::object(nb::cast(take_text(text))); }

nb::object compatibility_info(const std::string& path, const std::string& ep) {
  char* text = nullptr;
  check(api().GetCompatibilityInfoFromModel(path.c_str(), ep.c_str(), default_allocator(), &text));
  return text_or_none(text);
}

nb::object compatibility_info_of_bytes(const nb::bytes& model, const std::string& ep) {
  char* text = nullptr;
  check(api().GetCompatibilityInfoFromModelBytes(model.c_str(), model.size(), ep.c_str(), default_allocator(), &text));
  return text_or_none(text);
}

OrtCompiledModelCompatibility compatibility(const std::vector<EpDevice>& devices, const std::string& info) {
  std::vector<const OrtEpDevice*> handles;
  for (const EpDevice& device : devices) handles.push_back(device.device);
  OrtCompiledModelCompatibility found = OrtCompiledModelCompatibility_EP_NOT_APPLICABLE;
  check(api().GetModelCompatibilityForEpDevices(handles.data(), handles.size(), info.c_str(), &found));
  return found;
}

nb::dict incompatibility(const std::string& ep, const HardwareDevice& device) {
  Owned<OrtDeviceEpIncompatibilityDetails, &OrtApi::ReleaseDeviceEpIncompatibilityDetails> details;
  check(api().GetHardwareDeviceEpIncompatibilityDetails(env(), ep.c_str(), device.device, details.out()));
  uint32_t reasons = 0;
  const char* notes = nullptr;
  int32_t code = 0;
  check(api().DeviceEpIncompatibilityDetails_GetReasonsBitmask(details.get(), &reasons));
  check(api().DeviceEpIncompatibilityDetails_GetNotes(details.get(), &notes));
  check(api().DeviceEpIncompatibilityDetails_GetErrorCode(details.get(), &code));
  nb::dict made;
  made["reasons_bitmask"] = reasons;
  made["notes"] = notes == nullptr ? nb::none() : nb::object(nb::str(notes));
  made["error_code"] = code;
  return made;
}

OrtStatus* ORT_API_CALL choose(const OrtEpDevice** devices, size_t count, const OrtKeyValuePairs* model_metadata,
                               const OrtKeyValuePairs* runtime_metadata, const OrtEpDevice** selected,
                               size_t max_selected, size_t* num_selected, void* state) {
  return in_python([&]() -> OrtStatus* {
    nb::list all;
    for (size_t i = 0; i < count; ++i) all.append(EpDevice{devices[i]});
    const nb::callable& delegate = *static_cast<const nb::callable*>(state);
    const nb::object chosen = delegate(all, to_map(model_metadata), to_map(runtime_metadata), max_selected);
    *num_selected = 0;
    for (nb::handle device : chosen) {
      if (!nb::isinstance<EpDevice>(device))
        raise(PyExc_TypeError, "The function that chooses devices returns a list of OrtEpDevice, and " +
                                   nb::cast<std::string>(nb::repr(device)) + " is none.");
      if (*num_selected == max_selected)
        raise(PyExc_RuntimeError, "The function that chooses devices returned more than the " +
                                      std::to_string(max_selected) + " that it may choose.");
      selected[(*num_selected)++] = nb::cast<const EpDevice&>(device).device;
    }
    return nullptr;
  });
}

std::vector<OrtValue*> tensors_of(nb::handle values, const char* what) {
  std::vector<OrtValue*> made;
  for (nb::handle value : values) {
    if (!nb::isinstance<Value>(value))
      raise(PyExc_TypeError, std::string(what) + " of copy_tensors is a list of OrtValue, and " +
                                 nb::cast<std::string>(nb::repr(value)) + " is none.");
    made.push_back(nb::cast<Value&>(value).handle());
  }
  return made;
}

void copy_tensors(nb::handle src, nb::handle dst, nb::handle stream) {
  const std::vector<OrtValue*> from = tensors_of(src, "src");
  const std::vector<OrtValue*> to = tensors_of(dst, "dst");
  if (from.size() != to.size())
    raise(PyExc_ValueError, "copy_tensors has " + std::to_string(from.size()) + " sources and " +
                                std::to_string(to.size()) + " targets.");
  OrtSyncStream* const queue = stream.is_none() ? nullptr : nb::cast<SyncStream&>(stream).handle.get();
  OrtEnv* const environment = env();
  OrtStatus* status = nullptr;
  {
    const Unlocked unlocked;
    status = api().CopyTensors(environment, from.data(), to.data(), queue, from.size());
  }
  check_run(status);
}

}  // namespace

SyncStream create_stream(const EpDevice& device) {
  SyncStream made;
  check(api().CreateSyncStreamForEpDevice(device.device, nullptr, made.handle.out()));
  return made;
}

void set_policy_delegate(Options& options, nb::callable delegate) {
  auto kept = std::make_shared<const nb::callable>(std::move(delegate));
  check(api().SessionOptionsSetEpSelectionPolicyDelegate(options.handle.get(), &choose,
                                                         const_cast<nb::callable*>(kept.get())));
  options.policy_delegate = std::move(kept);
  options.has_devices = true;
}

void bind_selection(nb::module_& m) {
  using nb::arg;
  nb::enum_<OrtCompiledModelCompatibility>(m, "OrtCompiledModelCompatibility", "Whether a compiled model fits devices.",
                                           nb::is_arithmetic())
      .value("EP_NOT_APPLICABLE", OrtCompiledModelCompatibility_EP_NOT_APPLICABLE)
      .value("EP_SUPPORTED_OPTIMAL", OrtCompiledModelCompatibility_EP_SUPPORTED_OPTIMAL)
      .value("EP_SUPPORTED_PREFER_RECOMPILATION", OrtCompiledModelCompatibility_EP_SUPPORTED_PREFER_RECOMPILATION)
      .value("EP_UNSUPPORTED", OrtCompiledModelCompatibility_EP_UNSUPPORTED);
  nb::class_<SyncStream>(m, "OrtSyncStream", "A stream of a device's, from OrtEpDevice.create_sync_stream().")
      .def(
          "get_handle",
          [](const SyncStream& stream) {
            return reinterpret_cast<uintptr_t>(api().SyncStream_GetHandle(stream.handle.get()));
          },
          "The address of the device library's own stream.");
  m.def("get_hardware_devices", &hardware_devices, "The hardware that there is, whether or not a provider uses it.");
  m.def("get_compatibility_info_from_model", &compatibility_info, arg("model_path"), arg("ep_type"),
        "What a compiled model says of its fit for a provider; None where it says nothing.",
        nb::sig("def get_compatibility_info_from_model(model_path: str, ep_type: str) -> str | None"));
  m.def("get_compatibility_info_from_model_bytes", &compatibility_info_of_bytes, arg("model_data"), arg("ep_type"),
        "The same of a model's bytes.",
        nb::sig("def get_compatibility_info_from_model_bytes(model_data: bytes, ep_type: str) -> str | None"));
  m.def("get_model_compatibility_for_ep_devices", &compatibility, arg("ep_devices"), arg("compatibility_info"),
        "Whether what a compiled model says fits devices, all of one provider.");
  m.def("get_hardware_device_ep_incompatibility_details", &incompatibility, arg("ep_name"), arg("hw"),
        "Why a provider cannot use a piece of hardware: reasons_bitmask (0: it can, as far as is known), notes and "
        "error_code.",
        nb::sig("def get_hardware_device_ep_incompatibility_details(ep_name: str, hw: OrtHardwareDevice) -> dict[str, "
                "typing.Any]"));
  m.def("copy_tensors", &copy_tensors, arg("src"), arg("dst"), arg("stream") = nb::none(),
        "Copies each tensor of `src` into the memory of the one of `dst` at its place; types and sizes are equal. With "
        "a stream the copies are queued in it.",
        nb::sig("def copy_tensors(src: collections.abc.Sequence[OrtValue], dst: collections.abc.Sequence[OrtValue], "
                "stream: OrtSyncStream | None = None) -> None"));
}

}  // namespace tenon::python
