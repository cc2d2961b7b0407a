// The importer and the graphics interop of a plugin's device.
#pragma once

#include <memory>

#include "abi/objects/interop_api_importer.h"

namespace tenon::abi {

// The importer of a plugin's device. Null, with success, when the plugin has none (S1.1).
Result<std::shared_ptr<DeviceImporter>> make_plugin_importer(const OrtEpDevice& device);

// S1.9, for a plugin's device. Both keep the order: an Init after an Init without a Deinit between is refused, and so
// is one after the device's first stream, importer, allocation or session; Deinit without Init has no effect, and is
// refused while one of those lives.
Status init_graphics_interop(const OrtEpDevice& device, const OrtGraphicsInteropConfig& config);
Status deinit_graphics_interop(const OrtEpDevice& device);

}  // namespace tenon::abi
