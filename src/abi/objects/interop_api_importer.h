// The objects of OrtExternalResourceImporter, OrtExternalMemoryHandle and OrtExternalSemaphoreHandle in our host:
// the importer of a device, be it the CPU's own or a plugin's, and its imports.
//
// Ownership: a tensor holds its import, an import holds its importer, a plugin's importer holds the plugin's library.
// So a program may release in any order (S1.4). Threads: every function from any thread (S1.6).
#pragma once

#include <tenon/fence.h>
#include <tenon/onnxruntime_c_api.h>
#include <tenon/tensor.h>

#include <cstdint>
#include <memory>

#include "abi/objects/ep_device.h"
#include "abi/objects/sync_stream.h"
#include "abi/objects/value.h"
#include "base/status.h"

namespace tenon::abi {

// A tensor descriptor that was checked: the tensor fits into its import.
struct ImportedView {
  DataType type = DataType::kUndefined;
  Shape shape;
  size_t offset_bytes = 0;
  size_t size_bytes = 0;
};

class DeviceMemory {
 public:
  virtual ~DeviceMemory() = default;
  // A view of the import. `self` is this object's owner, which the tensor holds.
  virtual Result<std::unique_ptr<OrtValue>> create_tensor(const OrtExternalTensorDescriptor& descriptor,
                                                          const ImportedView& view,
                                                          const std::shared_ptr<DeviceMemory>& self) = 0;
};

class DeviceSemaphore {
 public:
  virtual ~DeviceSemaphore() = default;
  // Both queue on the stream and return; what they need until then they keep themselves.
  virtual Status wait(OrtSyncStream& stream, uint64_t value) = 0;
  virtual Status signal(OrtSyncStream& stream, uint64_t value) = 0;
  // The same as a timeline for runs (RunOptions::waits); it keeps `self`, which owns this object. `on_host`: what the
  // program's API does on the host, where it says so.
  virtual Result<std::shared_ptr<Timeline>> timeline(const std::shared_ptr<DeviceSemaphore>& self, std::string name,
                                                     std::shared_ptr<Timeline> on_host) = 0;
  // A plugin's own handle; null for others.
  virtual OrtExternalSemaphoreHandle* native() const { return nullptr; }
};

// The kinds are integers: programs also pass values that the C enums do not have.
class DeviceImporter : public std::enable_shared_from_this<DeviceImporter> {
 public:
  virtual ~DeviceImporter() = default;
  virtual Result<bool> can_import_memory(uint32_t kind) const = 0;
  virtual Result<bool> can_import_semaphore(uint32_t kind) const = 0;
  // The kind is importable, the version known, the size not 0.
  virtual Result<std::shared_ptr<DeviceMemory>> import_memory(const OrtExternalMemoryDescriptor& descriptor) = 0;
  virtual Result<std::shared_ptr<DeviceSemaphore>> import_semaphore(
      const OrtExternalSemaphoreDescriptor& descriptor) = 0;
};

}  // namespace tenon::abi

struct OrtExternalResourceImporter {
  std::shared_ptr<tenon::abi::DeviceImporter> importer;
  const OrtEpDevice* device = nullptr;
};
