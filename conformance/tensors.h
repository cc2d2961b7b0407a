// Helpers that make imports and tensors for checks.
#pragma once

#include <cstring>
#include <string>
#include <vector>

#include "conformance/suite.h"

namespace tenon::conformance {

Outcome import_memory(Check& check, OrtExternalResourceImporter* importer,
                      const OrtExternalMemoryDescriptor& descriptor, Owned<OrtExternalMemoryHandle>* out);
// Imports all of `memory`; a failure is the check's. Null then.
Owned<OrtExternalMemoryHandle> import_all(Check& check, SharedMemory& memory);

Outcome create_tensor(Check& check, OrtExternalResourceImporter* importer, const OrtExternalMemoryHandle* handle,
                      const OrtExternalTensorDescriptor& descriptor, Owned<OrtValue>* out);
OrtExternalTensorDescriptor describe_tensor(Check& check, const std::vector<int64_t>& shape, size_t offset_bytes = 0,
                                            ONNXTensorElementDataType type = ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT);
// A float tensor of the import; a failure is the check's.
Owned<OrtValue> make_tensor(Check& check, const OrtExternalMemoryHandle* handle, const std::vector<int64_t>& shape,
                            size_t offset_bytes = 0);

Outcome import_semaphore(Check& check, const OrtExternalSemaphoreDescriptor& descriptor,
                         Owned<OrtExternalSemaphoreHandle>* out);
Owned<OrtExternalSemaphoreHandle> import_all(Check& check, SharedSemaphore& semaphore);

// The plugin's importer in Tenon, without the host before it: Tenon refuses bad descriptors itself, and a host that
// does not shall find them refused too.
class OwnImporter {
 public:
  explicit OwnImporter(Check& check);
  ~OwnImporter();
  OwnImporter(const OwnImporter&) = delete;
  OwnImporter& operator=(const OwnImporter&) = delete;

  // False without a plugin or an importer of it, and in other hosts, which check nothing themselves.
  explicit operator bool() const { return impl_ != nullptr; }
  Outcome import_memory(const OrtExternalMemoryDescriptor& descriptor, Owned<OrtExternalMemoryHandle>* out) const;
  Outcome import_semaphore(const OrtExternalSemaphoreDescriptor& descriptor,
                           Owned<OrtExternalSemaphoreHandle>* out) const;
  Outcome create_tensor(const OrtExternalMemoryHandle* memory, const OrtExternalTensorDescriptor& descriptor,
                        Owned<OrtValue>* out) const;

 private:
  Check& check_;
  OrtExternalResourceImporterImpl* const impl_;
};

// True when the host may read the tensor where it lies.
bool host_reads(Check& check, const OrtValue* value);
// The tensor's elements, through the EP's data transfer where the host cannot read them.
Result<std::vector<float>> read_floats(Check& check, const OrtValue* value, const std::vector<int64_t>& shape);

}  // namespace tenon::conformance
