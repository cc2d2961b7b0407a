#include "ep/host/plugin_options.h"

#include <algorithm>
#include <cctype>
#include <string>
#include <utility>

#include "abi/objects/ep_context.h"
#include "abi/objects/session_options.h"
#include "abi/objects/slots.h"
#include "abi/objects/status.h"
#include "base/log.h"

namespace tenon::abi {

OrtKeyValuePairs ep_config(const PluginFactory& factory, std::span<const OrtEpDevice* const> devices,
                           const EpChoice& choice, const SessionOptions& options) {
  std::string prefix = "ep." + factory.name() + ".";
  std::transform(prefix.begin(), prefix.end(), prefix.begin(),
                 [](unsigned char letter) { return static_cast<char>(std::tolower(letter)); });
  OrtKeyValuePairs config;
  for (const OrtEpDevice* device : devices) {
    for (const auto& [key, value] : device->ep_options.entries()) config.set(prefix + key, value);
  }
  const auto set = [&](const std::string& key, const std::string& value) {
    const char* before = config.find(key);
    if (before != nullptr && value != before)
      log_warning("plugin", "{}: the option \"{}\" is \"{}\" in place of the device's \"{}\".", factory.who(), key,
                  value, before);
    config.set(key, value);
  };
  for (const auto& [key, value] : options.config) set(key, value);
  for (const auto& [key, value] : choice.options) set(prefix + key, value);
  return config;
}

void ReleaseOptions::operator()(OrtSessionOptions* options) const noexcept {
  if (options != nullptr) ort_api::ReleaseSessionOptions(options);
}

Result<std::unique_ptr<OrtSessionOptions, ReleaseOptions>> make_session_options(const SessionOptions& options,
                                                                                const OrtKeyValuePairs& config) {
  OrtSessionOptions* raw = nullptr;
  TENON_TRY(from_ort(ort_api::CreateSessionOptions(&raw)));
  std::unique_ptr<OrtSessionOptions, ReleaseOptions> made(raw);
  if (options.threads > 0) TENON_TRY(from_ort(ort_api::SetIntraOpNumThreads(raw, options.threads)));
  for (const auto& [key, value] : config.entries()) {
    TENON_TRY(from_ort(ort_api::AddSessionConfigEntry(raw, key.c_str(), value.c_str())));
  }
  if (const OrtSessionOptions* original = MakingSession::options(); original != nullptr) {
    raw->source_model = original->source_model;
    raw->ep_context = original->ep_context;
  }
  return made;
}

}  // namespace tenon::abi
