// An arena for tensors that the reader copies, because they cannot be views into the model file.
//
// Ownership: the result of allocate() keeps its chunk alive, also after the arena is gone.
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
