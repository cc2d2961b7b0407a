// The host's importer: memory that this process maps and timelines that it reaches, from handles that were read
// (external_handle.h). tenon/importer.h is the C++ API over it.
//
// Ownership: imports are transactions. On OK the import owns what handle_table.h says of the handle's kind; on error
// the caller's handle is untouched. Threads: every function from any thread. Errors: kUnsupported for a kind that the
// host cannot import; kInvalidArgument names the field and its values.
#pragma once

#include <tenon/external_memory.h>
#include <tenon/fence.h>

#include <cstdint>
#include <memory>

#include "interop/external_handle.h"

namespace tenon {

// No side effects, and a yes promises nothing. False for values outside the enums.
bool can_import_memory(uint32_t handle_type);
bool can_import_semaphore(uint32_t type);

// `handle_type` and `native_handle` as in OrtExternalMemoryDescriptor.
Result<std::shared_ptr<ExternalMemory>> import_memory(uint32_t handle_type, void* native_handle, size_t size_bytes,
                                                      size_t offset_bytes);
// `type` and `native_handle` as in OrtExternalSemaphoreDescriptor.
Result<std::shared_ptr<Timeline>> import_semaphore(uint32_t type, void* native_handle);

// The same without the last step: the caller's handle stays its own until consume(). For importers that do more with
// it. `descriptor.kind` is the handle's.
Result<std::shared_ptr<ExternalMemory>> map_memory(const ExternalHandle& handle,
                                                   const ExternalMemoryDescriptor& descriptor);
Result<std::shared_ptr<Timeline>> open_semaphore(const ExternalSemaphore& semaphore, std::string name);

// The bytes of a tensor that lies at `offset_bytes` of an import: computed with overflow checks, aligned to the element
// and inside the import. Strings, types without a size and negative dimensions are refused (S1.4).
Result<size_t> check_imported_tensor(DataType type, const Shape& shape, size_t offset_bytes, size_t import_size_bytes,
                                     const std::string& name);

}  // namespace tenon
