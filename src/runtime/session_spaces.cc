#include "runtime/session_spaces.h"

#include <algorithm>
#include <functional>
#include <utility>

#include "runtime/memory.h"

namespace tenon {

SessionSpaces::SessionSpaces(SpaceTable table) : table_(std::move(table)) {
  for (const MemorySpace& space : table_.spaces) {
    if (space.alignment > 0) alignments_.push_back(space.alignment);
  }
  std::sort(alignments_.begin(), alignments_.end(), std::greater<>());
  alignments_.erase(std::unique(alignments_.begin(), alignments_.end()), alignments_.end());
}

uint32_t SessionSpaces::alignment_of(const void* address) const {
  for (uint32_t alignment : alignments_) {
    if (reinterpret_cast<uintptr_t>(address) % alignment == 0) return alignment;
  }
  return 0;
}

MemorySpace SessionSpaces::space_of(const Tensor& tensor, int64_t& word) const {
  MemorySpace space = tensor.space();
  space.alignment = alignment_of(tensor.data());
  word = SessionSpaces::word(table_.find(space), space.alignment);
  return space;
}

Result<Tensor> SessionSpaces::allocate(SpaceId space, DataType type, const Shape& shape) const {
  if (space == kHostSpace) return Tensor::allocate(type, shape);
  TENON_TRY_ASSIGN(const size_t bytes, tensor_size_bytes(type, shape));
  TENON_TRY_ASSIGN(std::shared_ptr<std::byte> memory, allocate_bytes(space, bytes));
  return Tensor::view(type, shape, memory.get(), bytes, memory, table_.shown(space));
}

Result<std::shared_ptr<std::byte>> SessionSpaces::allocate_bytes(SpaceId space, size_t size_bytes) const {
  if (space == kHostSpace) return allocate_zeroed(size_bytes);
  return allocate_device(*table_.allocators[space], size_bytes);
}

}  // namespace tenon
