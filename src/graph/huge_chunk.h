// Memory for copies of a model's large tensors: huge_chunk_posix.cc and huge_chunk_win32.cc.
#pragma once

#include <cstddef>
#include <memory>

namespace tenon {

inline constexpr size_t kHugePage = size_t{2} << 20;
inline constexpr size_t kSmallPage = size_t{64} << 10;  // the largest of the systems that we know

// Zeroed, aligned to a huge page and on huge pages where the system gives them and they are full: page faults cost more
// than the copy itself. `size_bytes` is a multiple of kSmallPage. Null when there is no memory.
std::shared_ptr<std::byte> huge_chunk(size_t size_bytes);

// Gives memory that is about to be written whole its pages at once: a page fault costs several times as much as the
// page. Systems that cannot do it (Linux before 5.14) give them with the first touch.
void touch_pages(void* memory, size_t size_bytes);

}  // namespace tenon
