#include "runtime/memory.h"

#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstdlib>
#include <cstring>

#include "base/checked.h"
#include "base/fault.h"

namespace tenon {

namespace {

constexpr size_t kAlignment = 64;
constexpr size_t kFromKernel = 256 * 1024;

size_t page_bytes() {
  static const auto size = static_cast<size_t>(::sysconf(_SC_PAGESIZE));
  return size;
}

}  // namespace

Result<std::shared_ptr<std::byte>> allocate_zeroed(size_t size_bytes) {
  TENON_FAULT_POINT("allocate memory");
  const size_t granule = size_bytes >= kFromKernel ? page_bytes() : kAlignment;
  const auto padded = checked_add(size_bytes == 0 ? size_t{1} : size_bytes, granule - 1);
  if (!padded) return resource_exhausted("{} bytes cannot be allocated: the size overflows.", size_bytes);
  const size_t rounded = *padded / granule * granule;
  if (size_bytes >= kFromKernel) {
    void* memory = ::mmap(nullptr, rounded, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) {
      return resource_exhausted("{} bytes cannot be allocated: {}.", rounded, errno_text("mmap", errno));
    }
    return std::shared_ptr<std::byte>(static_cast<std::byte*>(memory),
                                      [rounded](std::byte* data) { ::munmap(data, rounded); });
  }
  void* memory = std::aligned_alloc(kAlignment, rounded);
  if (memory == nullptr) return resource_exhausted("{} bytes cannot be allocated.", rounded);
  std::memset(memory, 0, rounded);
  return std::shared_ptr<std::byte>(static_cast<std::byte*>(memory), [](std::byte* data) { std::free(data); });
}

void drop_file_pages(const std::byte* data, size_t size_bytes) {
  const size_t page = page_bytes();
  const auto begin = (reinterpret_cast<uintptr_t>(data) + page - 1) / page * page;
  const auto end = (reinterpret_cast<uintptr_t>(data) + size_bytes) / page * page;
  // A refusal only means that the pages stay.
  if (begin < end) (void)::madvise(reinterpret_cast<void*>(begin), end - begin, MADV_DONTNEED);
}

}  // namespace tenon
