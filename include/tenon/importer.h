// Importing memory and timelines that another program or API made (S1, S2): by the host, or by an EP's device for
// models that run there.
//
//   auto importer = *tenon::Importer::create("TenonCudaExecutionProvider");  // or tenon::Importer::host()
//   auto memory = *importer->import_memory(
//       fd, {.kind = tenon::ExternalMemoryKind::kVulkanOpaqueFd, .size_bytes = size_bytes, .dedicated = true});
//   auto x = *tenon::ExternalMemory::create_tensor(memory, tenon::DataType::kFloat, {1, 3, 736, 960});
//   auto frames = *importer->import_timeline(semaphore, tenon::TimelineKind::kVulkanTimelineFd, "frames");
//   const tenon::Fence drawn{frames, 1}, released{frames, 2};
//   auto status = session->run(binding, {.waits = {drawn}, .signals = {released}});
//
// Ownership: an import is a transaction. On OK a consumed handle belongs to the import, a borrowed or duplicated one
// stays the caller's, and the OwnedHandle is empty; on error the OwnedHandle is untouched and nothing is left behind.
// docs/reference/ownership.md lists the rule of each kind.
// Lifetime: imports, tensors and timelines keep what they need; all may go in any order.
// Threads: every function from any thread.
// Errors: kUnsupported where the device, or this machine, cannot import the kind; kInvalidArgument names the field and
// its values.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "tenon/external_handles.h"
#include "tenon/external_memory.h"
#include "tenon/fence.h"

namespace tenon {

// Values below TENON_EXTERNAL_HANDLE_FIRST are ONNX Runtime's OrtExternalSemaphoreType.
enum class TimelineKind : uint32_t {
  kD3d12Fence = 0,           // an NT handle; stays the caller's
  kVulkanTimelineWin32 = 1,  // an NT handle; stays the caller's
  kVulkanTimelineFd = 2,     // of vkGetSemaphoreFdKHR; consumed on success
  // The fd of a SharedTimeline; consumed on success.
  kSharedTimelineFd = TENON_EXTERNAL_SEMAPHORE_SHARED_TIMELINE_FD,
  // A TenonTimelineCallbacks*, which is copied; `release` is called once, after a successful import.
  kHostCallbacks = TENON_EXTERNAL_SEMAPHORE_HOST_CALLBACKS,
};

TENON_API std::string timeline_kind_name(TimelineKind kind);  // "vulkan_timeline_fd"
// All of them; lives as long as the process.
TENON_API std::span<const TimelineKind> timeline_kinds();

class TENON_API Importer {
 public:
  // The host's: memory that this process maps, for models of the CPU EP and as inputs of any. Lives as long as the
  // process.
  static Importer& host();
  // Of device `device` of an EP, counted in the order of ep_devices(); the CPU EP's is host().
  // Errors: kNotFound for no such device, kUnsupported when it has no importer.
  static Result<std::shared_ptr<Importer>> create(const std::string& ep_name, size_t device = 0);
  virtual ~Importer() = default;

  // True if an import of this kind can work on this machine; also for values outside the enums (false). Has no side
  // effect, promises no success.
  virtual bool can_import(ExternalMemoryKind kind) const = 0;
  virtual bool can_import(TimelineKind kind) const = 0;
  virtual Result<std::shared_ptr<ExternalMemory>> import_memory(OwnedHandle& handle,
                                                                const ExternalMemoryDescriptor& descriptor) = 0;
  // For RunOptions::waits and signals: a session whose model runs wholly on this device waits and signals there,
  // without the host. Everybody else waits through a stream of the device, or by `on_host`: what the program's own API
  // does with this timeline. A device cannot tell a timeline's value or wait with a deadline, so without `on_host` both
  // are kUnsupported. All functions of `on_host` are given, or none; host() reads its timelines itself and takes none.
  virtual Result<std::shared_ptr<Timeline>> import_timeline(OwnedHandle& handle, TimelineKind kind, std::string name,
                                                            TimelineCallbacks on_host = {}) = 0;
};

}  // namespace tenon
