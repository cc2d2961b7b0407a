// Imports a DLPack producer's tensor as external memory.
#pragma once

#include <tenon/dlpack.h>
#include <tenon/external_memory.h>

#include "interop/external_handle.h"

namespace tenon {

// The bytes of the handle's tensor, less the first descriptor.offset_bytes, as an import of descriptor.size_bytes. The
// producer's deleter is called once, with the last reference, if the handle was consumed by then. A read-only tensor
// needs `descriptor.writable` to be false.
Result<std::shared_ptr<ExternalMemory>> map_dlpack(const ExternalHandle& handle,
                                                   const ExternalMemoryDescriptor& descriptor, const std::string& what);

// Bytes that a DLPack tensor names on a device, as its producer addresses them there.
struct DlpackBytes {
  void* data = nullptr;
  size_t size_bytes = 0;
  std::shared_ptr<const void> owner;  // calls the producer's deleter, once, when the last copy of a consumed one goes
};

// The same for a dense tensor in a CUDA device's memory (kDLCUDA of this ordinal, or managed memory).
// Errors: kUnsupported for memory of another device or of the host, strides that are not dense, another version;
// kInvalidArgument for a range outside of the tensor, and when it is read-only but the handle is not.
Result<DlpackBytes> map_cuda_dlpack(const ExternalHandle& handle, int ordinal, size_t size_bytes, size_t offset_bytes);

}  // namespace tenon
