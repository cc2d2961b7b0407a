// Memory for the tensors that cannot be views into the model: many, and all made at once.
//
// Ownership: what allocate() returns keeps its chunk alive; the arena itself may go.
#pragma once

#include <cstddef>
#include <memory>

namespace tenon {

class CopyArena {
 public:
  // Aligned to 64 bytes, contents undefined. Null when there is no memory.
  std::shared_ptr<std::byte> allocate(size_t size_bytes);

 private:
  bool add_chunk(size_t size_bytes);

  std::shared_ptr<std::byte> chunk_;
  size_t used_ = 0, capacity_ = 0;
  size_t allocated_ = 0;  // by all chunks
};

}  // namespace tenon
