// Selects the EPs of a session: by device, by policy.
#include <algorithm>
#include <array>
#include <cctype>
#include <map>
#include <span>
#include <string>
#include <string_view>

#include "abi/objects/ep_device.h"
#include "abi/objects/session_options.h"
#include "abi/objects/slots.h"
#include "abi/objects/status.h"

namespace tenon::abi {
namespace {

constexpr std::string_view kCpuEp = "CPUExecutionProvider";

OrtStatus* read_options(const char* const* keys, const char* const* values, size_t count,
                        std::map<std::string, std::string>& out) {
  if (count > 0 && (keys == nullptr || values == nullptr))
    return make_ort_status(ORT_INVALID_ARGUMENT, "The options of an EP have a count, but no keys or no values.");
  for (size_t i = 0; i < count; ++i) {
    if (keys[i] == nullptr || *keys[i] == '\0' || values[i] == nullptr)
      return ort_error(ORT_INVALID_ARGUMENT, "Option {} of the EP has no key or no value.", i);
    out[keys[i]] = values[i];
  }
  return nullptr;
}

// The position of `device` among the devices of its EP, as EpChoice counts.
OrtStatus* position_of(std::span<const OrtEpDevice* const> all, const OrtEpDevice* device, size_t& out) {
  out = 0;
  for (const OrtEpDevice* one : all) {
    if (one == device) return nullptr;
    if (one->ep_name == device->ep_name) ++out;
  }
  return ort_error(ORT_INVALID_ARGUMENT, "A device of {} is not (or no longer) one of the env's EP devices.",
                   device->ep_name);
}

OrtStatus* append_devices(OrtSessionOptions& options, const OrtEnv* env, std::span<const OrtEpDevice* const> devices,
                          const std::map<std::string, std::string>& ep_options) {
  const OrtEpDevice* const* all = nullptr;
  size_t count = 0;
  if (OrtStatus* bad = ort_api::GetEpDevices(env, &all, &count)) return bad;
  EpChoice choice{.ep_name = devices[0]->ep_name, .options = ep_options};
  for (const OrtEpDevice* device : devices) {
    if (device->ep_name != choice.ep_name)
      return make_ort_status(ORT_INVALID_ARGUMENT,
                             "All OrtEpDevice values in ep_devices must have the same execution provider.");
    size_t position = 0;
    if (OrtStatus* bad = position_of({all, count}, device, position)) return bad;
    choice.devices.push_back(position);
  }
  // The built-in CPU EP is always there and always the last.
  if (choice.ep_name != kCpuEp) {
    options.eps.push_back(std::move(choice));
  } else {
    options.has_cpu_ep = true;
  }
  return nullptr;
}

// Programs find an EP's options among the configuration entries, as in the reference.
void add_ep_entries(OrtSessionOptions& options, std::string_view ep_name,
                    const std::map<std::string, std::string>& ep_options) {
  std::string prefix = "ep.";
  for (const char c : ep_name) prefix += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  prefix += '.';
  for (const auto& [key, value] : ep_options) options.config_entries.set(prefix + key, value);
}

std::span<const OrtHardwareDeviceType> preference(OrtExecutionProviderDevicePolicy policy) {
  static constexpr std::array kNpu = {OrtHardwareDeviceType_NPU};
  static constexpr std::array kGpu = {OrtHardwareDeviceType_GPU};
  static constexpr std::array kGpuNpu = {OrtHardwareDeviceType_GPU, OrtHardwareDeviceType_NPU};
  static constexpr std::array kNpuGpu = {OrtHardwareDeviceType_NPU, OrtHardwareDeviceType_GPU};
  switch (policy) {
    case OrtExecutionProviderDevicePolicy_PREFER_NPU:
    case OrtExecutionProviderDevicePolicy_MIN_OVERALL_POWER:
      return kNpu;
    case OrtExecutionProviderDevicePolicy_PREFER_GPU:
      return kGpu;
    case OrtExecutionProviderDevicePolicy_MAX_PERFORMANCE:
      return kGpuNpu;
    case OrtExecutionProviderDevicePolicy_MAX_EFFICIENCY:
      return kNpuGpu;
    case OrtExecutionProviderDevicePolicy_DEFAULT:
    case OrtExecutionProviderDevicePolicy_PREFER_CPU:
      break;
  }
  return {};
}

// The first device of the first kind that any EP offers.
const OrtEpDevice* preferred(std::span<const OrtEpDevice* const> all, OrtExecutionProviderDevicePolicy policy) {
  for (OrtHardwareDeviceType type : preference(policy)) {
    for (const OrtEpDevice* device : all)
      if (device->hardware != nullptr && device->hardware->type == type) return device;
  }
  return nullptr;
}

OrtStatus* ask_delegate(const OrtSessionOptions& options, std::span<const OrtEpDevice*> all,
                        std::vector<const OrtEpDevice*>& chosen) {
  constexpr size_t kMost = 8;  // as many as the reference takes
  std::array<const OrtEpDevice*, kMost> selected{};
  size_t count = 0;
  const OrtKeyValuePairs nothing;
  OrtStatus* status = options.ep_delegate(all.data(), all.size(), &nothing, &nothing, selected.data(), kMost, &count,
                                          options.ep_delegate_state);
  if (status != nullptr) {
    OrtStatus* said = ort_error(ORT_FAIL, "EP selection delegate failed: {}", status->message);
    release_status(status);
    return said;
  }
  if (count > kMost) return ort_error(ORT_FAIL, "EP selection delegate chose {} devices of at most {}.", count, kMost);
  for (size_t i = 0; i < count; ++i) {
    if (selected[i] == nullptr) return ort_error(ORT_FAIL, "EP selection delegate gave a null for device {}.", i);
    chosen.push_back(selected[i]);
  }
  return nullptr;
}

}  // namespace

OrtStatus* choose_eps(OrtSessionOptions& options, const OrtEnv& env) noexcept {
  if (!options.eps.empty() || (!options.has_ep_policy && options.ep_delegate == nullptr)) return nullptr;
  return guarded([&]() -> OrtStatus* {
    const OrtEpDevice* const* devices = nullptr;
    size_t count = 0;
    if (OrtStatus* bad = ort_api::GetEpDevices(&env, &devices, &count)) return bad;
    std::vector<const OrtEpDevice*> all(devices, devices + count), chosen;
    if (options.ep_delegate != nullptr) {
      if (OrtStatus* bad = ask_delegate(options, all, chosen)) return bad;
    } else if (const OrtEpDevice* best = preferred(all, options.ep_policy)) {
      chosen.push_back(best);
    }
    // One choice for each EP, in the order in which it first comes.
    while (!chosen.empty()) {
      const auto rest = std::stable_partition(chosen.begin(), chosen.end(), [first = chosen.front()](const auto* one) {
        return one->ep_name == first->ep_name;
      });
      if (OrtStatus* bad = append_devices(options, &env, {chosen.begin(), rest}, {})) return bad;
      chosen.erase(chosen.begin(), rest);
    }
    return nullptr;
  });
}

OrtStatus* ort_api::SessionOptionsAppendExecutionProvider_V2(OrtSessionOptions* session_options, OrtEnv* env,
                                                             const OrtEpDevice* const* ep_devices,
                                                             size_t num_ep_devices, const char* const* ep_option_keys,
                                                             const char* const* ep_option_vals,
                                                             size_t num_ep_options) noexcept {
  if (OrtStatus* bad = check_pointers("SessionOptionsAppendExecutionProvider_V2",
                                      {{"session_options", session_options}, {"env", env}, {"ep_devices", ep_devices}}))
    return bad;
  if (num_ep_devices == 0)
    return make_ort_status(ORT_INVALID_ARGUMENT, "Must provide one or more OrtEpDevice instances.");
  return guarded([&]() -> OrtStatus* {
    const std::span devices(ep_devices, num_ep_devices);
    if (std::find(devices.begin(), devices.end(), nullptr) != devices.end())
      return make_ort_status(ORT_INVALID_ARGUMENT, "One of the OrtEpDevice instances is null.");
    std::map<std::string, std::string> ep_options;
    if (OrtStatus* bad = read_options(ep_option_keys, ep_option_vals, num_ep_options, ep_options)) return bad;
    if (OrtStatus* bad = append_devices(*session_options, env, devices, ep_options)) return bad;
    add_ep_entries(*session_options, devices[0]->ep_name, ep_options);
    return nullptr;
  });
}

OrtStatus* ort_api::SessionOptionsSetEpSelectionPolicy(OrtSessionOptions* session_options,
                                                       OrtExecutionProviderDevicePolicy policy) noexcept {
  if (OrtStatus* bad = check_pointers("SessionOptionsSetEpSelectionPolicy", {{"session_options", session_options}}))
    return bad;
  session_options->ep_policy = policy;
  session_options->has_ep_policy = true;
  session_options->ep_delegate = nullptr;
  return nullptr;
}

OrtStatus* ort_api::SessionOptionsSetEpSelectionPolicyDelegate(OrtSessionOptions* session_options,
                                                               EpSelectionDelegate delegate,
                                                               void* delegate_state) noexcept {
  if (OrtStatus* bad =
          check_pointers("SessionOptionsSetEpSelectionPolicyDelegate", {{"session_options", session_options}}))
    return bad;
  session_options->ep_delegate = delegate;
  session_options->ep_delegate_state = delegate_state;
  session_options->has_ep_policy = false;
  return nullptr;
}

}  // namespace tenon::abi
