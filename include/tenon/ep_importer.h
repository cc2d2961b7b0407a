// Imports memory and timelines of another API (Vulkan, D3D12, CUDA) on an EP's device, so that a model on this device
// reads and writes them in place and waits for their values (S1). The host's own importer is tenon/external_memory.h.
//
//   auto importer = *tenon::EpImporter::create("TenonCudaExecutionProvider");
//   auto x = *importer->import_tensor(memory, {.size_bytes = size_bytes, .dedicated = true}, tenon::DataType::kFloat,
//                                     {1, 3, 736, 960});
//   auto frames = *importer->import_timeline(semaphore, tenon::TimelineKind::kVulkanTimelineFd, "frames");
//   const tenon::Fence drawn{frames, 1}, released{frames, 2};
//   auto status = session->run(binding, {.waits = {&drawn, 1}, .signals = {&released, 1}});
//
// Ownership: as in tenon/external_memory.h: on OK the import owns a file descriptor and `handle` is empty; pointers and
// NT handles stay the caller's. After an error the caller's handle is untouched. Tensors and timelines keep their
// imports alive, so they may be released in any order.
// Threads: every function from any thread.
// Errors: kUnsupported where the EP or this machine cannot import the kind; kInvalidArgument names the field and its
// values.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <string>

#include "tenon/external_memory.h"
#include "tenon/fence.h"

namespace tenon {

// Values as in ONNX Runtime's OrtExternalSemaphoreType.
enum class TimelineKind : uint32_t {
  kD3d12Fence = 0,
  kVulkanTimelineWin32 = 1,  // an NT handle
  kVulkanTimelineFd = 2,     // of vkGetSemaphoreFdKHR; consumed on success
};

struct EpMemoryDescriptor {
  ExternalMemoryKind kind = ExternalMemoryKind::kVulkanOpaqueFd;
  size_t size_bytes = 0;    // of the import; 0 is refused
  size_t offset_bytes = 0;  // where in the handle's object it begins
  bool dedicated = false;   // the allocation was made for one buffer or image alone
  bool writable = true;
  std::array<uint8_t, 16> device_uuid = {};  // of the device that made it; all 0: not known, not checked
};

class TENON_API EpImporter {
 public:
  // Of the EP's device `device`, counted in the order of ep_devices(). kUnsupported when it has none.
  static Result<std::shared_ptr<EpImporter>> create(const std::string& ep_name, size_t device = 0);
  virtual ~EpImporter() = default;

  // True if an import of this kind can work. Promises no success.
  virtual bool can_import(ExternalMemoryKind kind) const = 0;
  virtual bool can_import(TimelineKind kind) const = 0;
  // A view of an import at its begin: `shape` elements of `type` must fit into it.
  virtual Result<Tensor> import_tensor(OwnedHandle& handle, const EpMemoryDescriptor& descriptor, DataType type,
                                       const Shape& shape) = 0;
  // For RunOptions::waits and signals: a session whose model runs wholly on this device waits and signals there,
  // without the host. Everybody else waits through a stream of the device, or by `on_host`: what the program's own API
  // does with this timeline. A device cannot tell a timeline's value or wait with a deadline, so without `on_host` both
  // are kUnsupported. All of its functions are given, or none.
  virtual Result<std::shared_ptr<Timeline>> import_timeline(OwnedHandle& handle, TimelineKind kind, std::string name,
                                                            TimelineCallbacks on_host = {}) = 0;
};

}  // namespace tenon
