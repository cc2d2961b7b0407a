// Imports a DLPack producer's tensor as external memory.
#pragma once

#include <tenon/dlpack.h>
#include <tenon/external_memory.h>

namespace tenon {

// The bytes of `managed`, less the first descriptor.offset_bytes, as an import of descriptor.size_bytes. Takes
// `managed` on success: its deleter is called once, with the last reference; on error it stays the caller's. A
// read-only tensor needs `descriptor.writable` to be false.
Result<std::shared_ptr<ExternalMemory>> import_dlpack(DLManagedTensor* managed,
                                                      const ExternalMemoryDescriptor& descriptor);
Result<std::shared_ptr<ExternalMemory>> import_dlpack(DLManagedTensorVersioned* managed,
                                                      const ExternalMemoryDescriptor& descriptor);

// Bytes that a DLPack tensor names on a device, as its producer addresses them there.
struct DlpackBytes {
  void* data = nullptr;
  size_t size_bytes = 0;
  std::shared_ptr<const void> owner;  // calls the producer's deleter, once, when the last copy goes
};

// The same for a dense tensor in a CUDA device's memory (kDLCUDA of this ordinal, or managed memory). Takes the struct
// on success: a DLManagedTensorVersioned if `versioned`, else a DLManagedTensor.
// Errors: kUnsupported for memory of another device or of the host, strides that are not dense, another version;
// kInvalidArgument for a range outside of the tensor, and when it is read-only but must be `writable`.
Result<DlpackBytes> take_cuda_dlpack(void* managed, bool versioned, int ordinal, size_t size_bytes, size_t offset_bytes,
                                     bool writable);

}  // namespace tenon
