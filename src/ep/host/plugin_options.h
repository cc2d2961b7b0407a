// Session options that an EP gets: config entries, and the OrtSessionOptions of CreateEp.
#pragma once

#include <tenon/onnxruntime_c_api.h>
#include <tenon/session.h>

#include <memory>
#include <span>

#include "abi/objects/key_value_pairs.h"
#include "ep/host/plugin_factory.h"

namespace tenon::abi {

// The session's entries, and the EP's options as "ep.<name in lower case>.<key>": the devices' own defaults, then the
// user's, which win with a warning.
OrtKeyValuePairs ep_config(const PluginFactory& factory, std::span<const OrtEpDevice* const> devices,
                           const EpChoice& choice, const SessionOptions& options);

struct ReleaseOptions {
  void operator()(OrtSessionOptions* options) const noexcept;
};
Result<std::unique_ptr<OrtSessionOptions, ReleaseOptions>> make_session_options(const SessionOptions& options,
                                                                                const OrtKeyValuePairs& config);

}  // namespace tenon::abi
