// Exports memory and semaphores as another program or API would, for an EP to import.
//
// Ownership: a SharedMemory owns its memory and handles until take_on_success() is called after an import.
#pragma once

#include <tenon/external_handles.h>
#include <tenon/fence.h>
#include <tenon/onnxruntime_c_api.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "conformance/status.h"

namespace tenon::conformance {

// Memory with the view that the other side has of it.
class SharedMemory {
 public:
  virtual ~SharedMemory() = default;
  // The descriptor that ImportMemory takes. Valid as long as this object.
  virtual OrtExternalMemoryDescriptor descriptor(uint32_t version) = 0;
  // The other side writes and reads here; where that is no view of the memory itself, publish() brings what it wrote
  // there, and refresh() what is there.
  virtual std::byte* view() = 0;
  virtual void publish() {}
  virtual void refresh() {}
  virtual size_t size_bytes() const = 0;
  // After a successful import: what the kind hands over is the import's from now on.
  virtual void take_on_success() = 0;
  // The caller still has what it had before a failed import. Empty, or what is wrong.
  virtual std::string check_still_ours() = 0;
  // After the last release of the import and its tensors. Empty, or what is wrong.
  virtual std::string check_given_back() = 0;
  // A descriptor of a handle that is no handle any more: a closed fd, a null pointer.
  virtual OrtExternalMemoryDescriptor broken_descriptor(uint32_t version) = 0;
  // True where the size of the object behind the handle can be asked, so that a larger import must be refused.
  virtual bool size_is_known() const = 0;
};

class MemoryExporter {
 public:
  virtual ~MemoryExporter() = default;
  virtual const char* name() const = 0;  // "mappable_fd"
  virtual uint32_t kind() const = 0;     // handle_type
  virtual Result<std::unique_ptr<SharedMemory>> make(size_t size_bytes) = 0;
};

class SharedSemaphore {
 public:
  virtual ~SharedSemaphore() = default;
  virtual OrtExternalSemaphoreDescriptor descriptor(uint32_t version) = 0;
  virtual void take_on_success() = 0;
  virtual std::string check_still_ours() = 0;
  virtual std::string check_given_back() = 0;
  // The other side's end.
  virtual Timeline& other() = 0;
};

class SemaphoreExporter {
 public:
  virtual ~SemaphoreExporter() = default;
  virtual const char* name() const = 0;
  virtual uint32_t kind() const = 0;  // type
  virtual Result<std::unique_ptr<SharedSemaphore>> make() = 0;
};

// Exporters of memory that any Linux machine can make: host allocations, memfds, DLPack tensors.
std::vector<std::unique_ptr<MemoryExporter>> host_memory_exporters();
// Timelines in shared memory, and behind callbacks.
std::vector<std::unique_ptr<SemaphoreExporter>> host_semaphore_exporters();
// A memfd or a shared timeline as another kind, for importers that are not a GPU driver's.
std::unique_ptr<MemoryExporter> memfd_exporter(const char* name, uint32_t kind);
std::unique_ptr<SemaphoreExporter> shared_timeline_exporter(const char* name, uint32_t kind);
// A timeline of this process behind callbacks: one that the program's own API (a Vulkan driver, say) keeps.
Result<std::unique_ptr<SharedSemaphore>> share_by_callbacks(std::shared_ptr<Timeline> timeline);

}  // namespace tenon::conformance
