// A plugin's external resource importer as C++ classes behind OrtExternalResourceImporterImpl, and the checks that
// every importer makes (S1.2 to S1.5).
//
// Ownership: a handle keeps the import; a tensor made from it keeps it too, so both may go in any order. The caller's
// native handle stays the caller's while an importer works with it (with duplicates); after a success this class does
// what the kind's row says (consume() of src/interop/external_handle.h), the last step of all.
// Threads: every function from any thread.
// Errors: kInvalidArgument names the field and its values; kUnsupported for kinds that the importer does not take.
#pragma once

#include <memory>

#include "ep/sdk/plugin_host.h"
#include "ep/sdk/plugin_stream.h"
#include "interop/external_handle.h"

namespace tenon::plugin {

class ImportedMemory : public OrtExternalMemoryHandle {
 public:
  ImportedMemory(const HostApi& host, const OrtEpDevice* device, const OrtExternalMemoryDescriptor& descriptor);
  virtual ~ImportedMemory() = default;
  ImportedMemory(const ImportedMemory&) = delete;
  ImportedMemory& operator=(const ImportedMemory&) = delete;
};

class ImportedSemaphore : public OrtExternalSemaphoreHandle {
 public:
  ImportedSemaphore(const HostApi& host, const OrtEpDevice* device, const OrtExternalSemaphoreDescriptor& descriptor);
  virtual ~ImportedSemaphore() = default;
  ImportedSemaphore(const ImportedSemaphore&) = delete;
  ImportedSemaphore& operator=(const ImportedSemaphore&) = delete;
};

// A checked tensor descriptor: it fits into the import.
struct TensorView {
  DataType type = DataType::kUndefined;
  Shape shape;
  size_t offset_bytes = 0;
  size_t size_bytes = 0;
};

// Everything about a descriptor that needs neither a device nor the native handle.
Status check_memory_descriptor(const OrtExternalMemoryDescriptor* descriptor);
Status check_semaphore_descriptor(const OrtExternalSemaphoreDescriptor* descriptor);
Result<TensorView> check_tensor_descriptor(const OrtExternalTensorDescriptor* descriptor, size_t import_bytes);

class Importer : private OrtExternalResourceImporterImpl {
 public:
  Importer(const HostApi& host, const OrtEpDevice* device);
  virtual ~Importer() = default;
  Importer(const Importer&) = delete;
  Importer& operator=(const Importer&) = delete;

  // Null gives null: the device has no importer.
  static OrtExternalResourceImporterImpl* release_to_host(std::unique_ptr<Importer> importer);

 protected:
  // Also for values outside the enums.
  virtual bool can_import(ExternalMemoryKind kind) const = 0;
  virtual bool can_import(TimelineKind kind) const = 0;
  // The descriptor passed check_memory_descriptor, can_import said yes, and `handle` is what its native_handle says.
  virtual Result<std::unique_ptr<ImportedMemory>> import_memory(const ExternalHandle& handle,
                                                                const OrtExternalMemoryDescriptor& descriptor) = 0;
  virtual Result<std::unique_ptr<ImportedSemaphore>> import_semaphore(
      const ExternalSemaphore& semaphore, const OrtExternalSemaphoreDescriptor& descriptor) = 0;
  // A view; use make_view() so that it keeps the import alive.
  virtual Result<OrtValue*> create_tensor(const ImportedMemory& memory, const TensorView& view) = 0;
  // Queued; these return before the value is reached. `stream` is never null.
  virtual Status wait(ImportedSemaphore& semaphore, SyncStream& stream, uint64_t value) = 0;
  virtual Status signal(ImportedSemaphore& semaphore, SyncStream& stream, uint64_t value) = 0;

  // A tensor over `data` that holds `owner` until the host releases it. `info` outlives the tensor.
  Result<OrtValue*> make_view(const OrtMemoryInfo* info, void* data, const TensorView& view,
                              std::shared_ptr<const void> owner) const;
  const HostApi& host() const { return host_; }
  const OrtEpDevice* device() const { return device_; }

 private:
  bool takes(uint32_t handle_type) const;
  Status import_memory_checked(const OrtExternalMemoryDescriptor* descriptor, OrtExternalMemoryHandle** out);
  Status import_semaphore_checked(const OrtExternalSemaphoreDescriptor* descriptor, OrtExternalSemaphoreHandle** out);
  Status create_tensor_checked(const OrtExternalMemoryHandle* handle, const OrtExternalTensorDescriptor* descriptor,
                               OrtValue** out);
  Status queue(OrtExternalSemaphoreHandle* handle, OrtSyncStream* stream, uint64_t value, bool is_wait);

  const HostApi host_;
  const OrtEpDevice* const device_;
};

}  // namespace tenon::plugin
