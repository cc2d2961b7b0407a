#include "graph/copy_arena.h"

#include <algorithm>
#include <cstdint>
#include <new>

#include "graph/huge_chunk.h"

namespace tenon {

namespace {

constexpr size_t kAlignment = 64;
constexpr size_t kFirstChunk = size_t{256} << 10;
constexpr size_t kHugeFrom = size_t{1} << 20;  // small models stay on small pages: a huge one would be mostly empty

size_t round_up(size_t size, size_t unit) { return (size + unit - 1) / unit * unit; }

std::shared_ptr<std::byte> small_chunk(size_t size) {
  void* memory = ::operator new(size, std::align_val_t{kAlignment}, std::nothrow);
  if (memory == nullptr) return nullptr;
  return {static_cast<std::byte*>(memory), [](std::byte* p) { ::operator delete(p, std::align_val_t{kAlignment}); }};
}

}  // namespace

bool CopyArena::add_chunk(size_t size_bytes) {
  const size_t wanted = std::max(size_bytes, allocated_ == 0 ? kFirstChunk : std::min(allocated_, 2 * kHugePage));
  const bool huge = allocated_ + wanted > kHugeFrom;
  const size_t size = huge ? round_up(wanted, kHugePage) : wanted;
  chunk_ = huge ? huge_chunk(size) : small_chunk(size);
  if (!chunk_) return false;
  used_ = 0;
  capacity_ = size;
  allocated_ += size;
  return true;
}

std::shared_ptr<std::byte> CopyArena::allocate(size_t size_bytes) {
  constexpr size_t kLargest = SIZE_MAX / 4;  // so that rounding cannot wrap
  if (size_bytes > kLargest) return nullptr;
  const size_t rounded = round_up(size_bytes, kAlignment);
  if (rounded > capacity_ - used_ && !add_chunk(rounded)) return nullptr;
  std::shared_ptr<std::byte> memory(chunk_, chunk_.get() + used_);
  used_ += rounded;
  return memory;
}

}  // namespace tenon
