#include "runtime/memory.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <utility>

#include "base/checked.h"
#include "base/fault.h"
#include "base/system.h"
#include "graph/huge_chunk.h"

namespace tenon {

namespace {

constexpr size_t kAlignment = 64;
constexpr size_t kFromKernel = 256 * 1024;
constexpr size_t kHugePage = 2 * 1024 * 1024;
constexpr size_t kFromHugePages = 2 * 1024 * 1024;
// Larger blocks are filled by several threads, whose page faults run side by side.
constexpr size_t kTouchedByOne = 8 * 1024 * 1024;

// Memory from the kernel, in huge pages where it has them: convolutions walk through dozens of planes at once, more
// than the TLB holds in 4 KiB pages (5 % of ppocr_v6_det), and 512 first touches become one. Null: errno says why not.
std::byte* map_huge_pages(size_t size_bytes) {
  const auto mapped = checked_add(size_bytes, kHugePage);
  if (!mapped) {
    errno = ENOMEM;
    return nullptr;
  }
  void* memory = ::mmap(nullptr, *mapped, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) return nullptr;
  auto* begin = static_cast<std::byte*>(memory);
  const size_t before = (kHugePage - reinterpret_cast<uintptr_t>(memory) % kHugePage) % kHugePage;
  if (before > 0) (void)::munmap(begin, before);
  if (before < kHugePage) (void)::munmap(begin + before + size_bytes, kHugePage - before);
  (void)::madvise(begin + before, size_bytes, MADV_HUGEPAGE);  // a refusal only means small pages
  return begin + before;
}

}  // namespace

Result<std::shared_ptr<std::byte>> allocate_zeroed(size_t size_bytes, Pages pages) {
  TENON_FAULT_POINT("allocate memory");
  // The kernel may promise more than there is, and end the process when it is written.
  if (size_bytes > memory_bytes())
    return resource_exhausted("{} bytes cannot be allocated: there are {} bytes of memory.", size_bytes,
                              memory_bytes());
  const size_t granule = size_bytes >= kFromKernel ? page_bytes() : kAlignment;
  const auto padded = checked_add(size_bytes == 0 ? size_t{1} : size_bytes, granule - 1);
  if (!padded) return resource_exhausted("{} bytes cannot be allocated: the size overflows.", size_bytes);
  const size_t rounded = *padded / granule * granule;
  if (size_bytes >= kFromKernel) {
    void* memory = rounded >= kFromHugePages
                       ? map_huge_pages(rounded)
                       : ::mmap(nullptr, rounded, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED || memory == nullptr) {
      return resource_exhausted("{} bytes cannot be allocated: {}.", rounded, errno_text("mmap", errno));
    }
    if (pages == Pages::kAtOnce && rounded < kTouchedByOne) touch_pages(memory, rounded);
    return std::shared_ptr<std::byte>(static_cast<std::byte*>(memory),
                                      [rounded](std::byte* data) { ::munmap(data, rounded); });
  }
  void* memory = std::aligned_alloc(kAlignment, rounded);
  if (memory == nullptr) return resource_exhausted("{} bytes cannot be allocated.", rounded);
  std::memset(memory, 0, rounded);
  return std::shared_ptr<std::byte>(static_cast<std::byte*>(memory), [](std::byte* data) { std::free(data); });
}

Result<std::shared_ptr<std::byte>> allocate_device(DeviceAllocator& allocator, size_t size_bytes) {
  TENON_FAULT_POINT("allocate device memory");
  if (allocator.gives_handles()) {
    TENON_TRY_ASSIGN(std::shared_ptr<void> buffer, allocator.allocate(size_bytes, nullptr));
    if (buffer == nullptr)
      return resource_exhausted("The allocator of {} gives no buffer of {} bytes.", allocator.space().to_string(),
                                size_bytes);
    return std::static_pointer_cast<std::byte>(std::move(buffer));
  }
  const size_t alignment = std::max<size_t>(kAlignment, allocator.space().alignment);
  const auto padded = checked_add(size_bytes, 2 * alignment);
  if (!padded) return resource_exhausted("{} bytes cannot be allocated: the size overflows.", size_bytes);
  TENON_TRY_ASSIGN(std::shared_ptr<void> block, allocator.allocate(*padded, nullptr));
  if (block == nullptr) {
    return resource_exhausted("The allocator of {} gives no memory for {} bytes.", allocator.space().to_string(),
                              *padded);
  }
  const auto address = (reinterpret_cast<uintptr_t>(block.get()) + alignment - 1) / alignment * alignment;
  return std::shared_ptr<std::byte>(std::move(block), reinterpret_cast<std::byte*>(address));
}

}  // namespace tenon
