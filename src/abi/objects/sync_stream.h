// OrtSyncStream: a stream as the C ABI shows it. Plugins' streams have an implementation that the plugin wrote; the CPU
// EP's have none, they are a DeviceStream of ours alone.
//
// Ownership: the struct is part of what owns the stream (PluginStream, or the object that CreateSyncStreamForEpDevice
// gave); plugins and programs borrow it.
// Threads: from one run at a time; the ids from any.
#pragma once

#include <tenon/onnxruntime_c_api.h>

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <string>

#include "abi/objects/memory_info.h"
#include "base/guarded.h"
#include "device/device.h"

namespace tenon::abi {
class PluginLibrary;
}

struct OrtSyncStream {
  OrtSyncStreamImpl* impl = nullptr;      // null: not a plugin's
  tenon::DeviceStream* stream = nullptr;  // never null; calls the plugin's functions, checked
  // The EP library whose code the stream is, which the stream keeps loaded. Null: the CPU EP's.
  tenon::abi::PluginLibrary* library = nullptr;
  std::string who = "the CPU EP";  // for messages: `EP "x" of EP library "y"`
  OrtMemoryDevice device;
  // Grows with each notification that the stream activates.
  std::atomic<uint64_t> sync_id = 0;
  // By producer: the id of the notification that this stream waited for last.
  tenon::Guarded<std::map<const OrtSyncStream*, uint64_t>> waited;
  // Streams that a program made: holds `stream` and the library behind it. Null where a PluginStream owns this.
  std::shared_ptr<void> owned;
};

namespace tenon::abi {

// The C ABI's side of a stream; null for one that no plugin made.
OrtSyncStream* to_ort(DeviceStream* stream) noexcept;

}  // namespace tenon::abi
