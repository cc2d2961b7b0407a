#include <tenon/external_memory.h>

#include "base/status.h"
#include "interop/importer.h"

namespace tenon {

Result<Tensor> ExternalMemory::create_tensor(const std::shared_ptr<ExternalMemory>& memory, DataType type,
                                             const Shape& shape, size_t offset_bytes) {
  TENON_INVALID_IF(memory == nullptr, "A tensor cannot be made from an import that is null.");
  TENON_TRY(check_imported_tensor(type, shape, offset_bytes, memory->size_bytes(), memory->name()).status());
  TENON_TRY(memory->check());
  TENON_TRY_ASSIGN(Tensor tensor, memory->make_view(memory, type, shape, offset_bytes));
  return memory->writable() ? tensor : tensor.as_read_only();
}

Result<Tensor> ExternalMemory::make_view(const std::shared_ptr<ExternalMemory>& self, DataType type, const Shape& shape,
                                         size_t offset_bytes) const {
  return Tensor::view(type, shape, static_cast<std::byte*>(data()) + offset_bytes, size_bytes() - offset_bytes, self);
}

}  // namespace tenon
