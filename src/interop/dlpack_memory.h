// A DLPack producer's tensor as external memory.
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

}  // namespace tenon
