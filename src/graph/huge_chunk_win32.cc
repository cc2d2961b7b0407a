#include <windows.h>

#include "graph/huge_chunk.h"

namespace tenon {

// Large pages need a privilege that programs do not have; what the others cost is paid once a model.
std::shared_ptr<std::byte> huge_chunk(size_t size_bytes) {
  void* memory = ::VirtualAlloc(nullptr, size_bytes + kHugePage, MEM_RESERVE, PAGE_NOACCESS);
  if (memory == nullptr) return nullptr;
  auto* const begin = static_cast<std::byte*>(memory);
  const size_t past = reinterpret_cast<uintptr_t>(begin) % kHugePage;
  std::byte* const aligned = past == 0 ? begin : begin + (kHugePage - past);
  if (::VirtualAlloc(aligned, size_bytes, MEM_COMMIT, PAGE_READWRITE) == nullptr) {
    (void)::VirtualFree(memory, 0, MEM_RELEASE);
    return nullptr;
  }
  return {aligned, [memory](std::byte*) { (void)::VirtualFree(memory, 0, MEM_RELEASE); }};
}

void touch_pages(void*, size_t) {}

}  // namespace tenon
