// Memory for copies of a model's large tensors: huge_chunk_posix.cc and huge_chunk_win32.cc.
#pragma once

#include <cstddef>
#include <memory>

namespace tenon {

inline constexpr size_t kHugePage = size_t{2} << 20;

// Zeroed, aligned to a huge page and on huge pages where the system gives them: page faults cost more than the copy
// itself. `size_bytes` is a multiple of kHugePage. Null when there is no memory.
std::shared_ptr<std::byte> huge_chunk(size_t size_bytes);

}  // namespace tenon
