// The CPU device's importer: memory and semaphores from the handles that callers of the C ABI pass.
//
// Ownership: imports are transactions. On OK the import owns what handle_table.h says of the handle's kind; on error
// the caller's handle is untouched. Threads: every function from any thread. Errors: kUnsupported for a kind that this
// device cannot import; kInvalidArgument names the field and its values.
#pragma once

#include <tenon/external_memory.h>
#include <tenon/fence.h>

#include <cstdint>
#include <memory>

namespace tenon {

// No side effects, and a yes promises nothing. False for values outside the enums.
bool can_import_memory(uint32_t handle_type);
bool can_import_semaphore(uint32_t type);

// `handle_type` and `native_handle` as in OrtExternalMemoryDescriptor.
Result<std::shared_ptr<ExternalMemory>> import_memory(uint32_t handle_type, void* native_handle, size_t size_bytes,
                                                      size_t offset_bytes);
// `type` and `native_handle` as in OrtExternalSemaphoreDescriptor.
Result<std::shared_ptr<Timeline>> import_semaphore(uint32_t type, void* native_handle);

// The bytes of a tensor that lies at `offset_bytes` of an import: computed with overflow checks, aligned to the element
// and inside the import. Strings, types without a size and negative dimensions are refused (S1.4).
Result<size_t> check_imported_tensor(DataType type, const Shape& shape, size_t offset_bytes, size_t import_size_bytes,
                                     const std::string& name);

}  // namespace tenon
