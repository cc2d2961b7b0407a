#include <sys/mman.h>
#include <unistd.h>

#include <cstdint>

#include "graph/huge_chunk.h"

namespace tenon {

// Huge pages halve the time to read a model.
std::shared_ptr<std::byte> huge_chunk(size_t size_bytes) {
  void* memory = ::mmap(nullptr, size_bytes + kHugePage, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) return nullptr;
  auto* const begin = static_cast<std::byte*>(memory);
  const size_t past = reinterpret_cast<uintptr_t>(begin) % kHugePage;
  const size_t skip = past == 0 ? 0 : kHugePage - past;
  if (skip > 0) ::munmap(begin, skip);
  if (skip < kHugePage) ::munmap(begin + skip + size_bytes, kHugePage - skip);
  (void)::madvise(begin + skip, size_bytes / kHugePage * kHugePage, MADV_HUGEPAGE);
  return {begin + skip, [size_bytes](std::byte* p) { ::munmap(p, size_bytes); }};
}

void touch_pages(void* memory, size_t size_bytes) {
  static const auto page = static_cast<uintptr_t>(::sysconf(_SC_PAGESIZE));
  const auto begin = reinterpret_cast<uintptr_t>(memory), first = (begin + page - 1) / page * page;
  const uintptr_t last = (begin + size_bytes) / page * page;
  if (first < last) (void)::madvise(reinterpret_cast<void*>(first), last - first, MADV_POPULATE_WRITE);
}

}  // namespace tenon
