#include "ep/sim/sim_memory.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <mutex>

#include "base/checked.h"
#include "ep/sim/sim_counters.h"

namespace tenon::sim {

namespace {

Result<size_t> whole_pages(size_t size_bytes) {
  const size_t page = ::sysconf(_SC_PAGESIZE);
  const auto padded = checked_add(std::max<size_t>(size_bytes, 1), page - 1);
  if (!padded) return resource_exhausted("{} bytes of device memory are asked for.", size_bytes);
  return *padded / page * page;
}

// Beyond any object that an import can name: an argument that is wrong, not memory that is short.
constexpr size_t kLargestImportBytes = size_t{1} << 46;

Result<void*> map_pages(size_t size_bytes, int access) {
  void* pages = ::mmap(nullptr, size_bytes, access, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (pages == MAP_FAILED)
    return resource_exhausted("{} bytes of device memory cannot be mapped: {}.", size_bytes, errno_text("mmap", errno));
  return pages;
}

}  // namespace

void poison(void* memory, size_t size_bytes) {
  auto* bytes = static_cast<unsigned char*>(memory);
  for (size_t i = 0; i < size_bytes; ++i) bytes[i] = static_cast<unsigned char>(i % 2 == 0 ? kPoison : kPoison >> 8);
}

SimMemory::~SimMemory() {
  for (const auto& [address, block] : blocks_) destroy(address, block);
}

Result<void*> SimMemory::allocate(size_t size_bytes, Kind kind) {
  TENON_TRY_ASSIGN(const size_t reserved, whole_pages(size_bytes));
  std::unique_lock lock(mutex_);
  const auto used = checked_add(used_bytes_, reserved);
  if (!used || *used > limit_bytes_)
    return resource_exhausted("{} bytes of device memory are asked for; {} of {} are in use.", size_bytes, used_bytes_,
                              limit_bytes_);
  TENON_TRY_ASSIGN(void* backing, map_pages(reserved, PROT_READ | PROT_WRITE));
  void* address = backing;
  if (kind == Kind::kDefault) {
    Result<void*> pages = map_pages(reserved, PROT_NONE);
    if (!pages.ok()) {
      ::munmap(backing, reserved);
      return pages;
    }
    address = *pages;
  }
  poison(backing, reserved);
  Block block{
      .backing = static_cast<std::byte*>(backing), .size_bytes = size_bytes, .reserved_bytes = reserved, .kind = kind};
  blocks_.emplace(reinterpret_cast<uintptr_t>(address), std::move(block));
  used_bytes_ = *used;
  (kind == Kind::kDefault ? counters().device_blocks : counters().host_blocks) += 1;
  (kind == Kind::kDefault ? counters().device_bytes : counters().host_bytes) += static_cast<int64_t>(reserved);
  return address;
}

SimMemory::Addresses::~Addresses() {
  if (pages_ != nullptr) ::munmap(pages_, bytes_);
}

Result<SimMemory::Addresses> SimMemory::reserve(size_t size_bytes) {
  // One page more: an import may begin anywhere in its first page.
  TENON_INVALID_IF(size_bytes > kLargestImportBytes,
                   "size_bytes ({}) exceeds the {} bytes that the device can address.", size_bytes,
                   kLargestImportBytes);
  TENON_TRY_ASSIGN(const size_t pages_bytes, whole_pages(size_bytes));
  const size_t reserved = pages_bytes + ::sysconf(_SC_PAGESIZE);
  TENON_TRY_ASSIGN(void* pages, map_pages(reserved, PROT_NONE));
  return Addresses(pages, reserved);
}

void* SimMemory::adopt(Addresses addresses, std::byte* backing, size_t size_bytes, std::shared_ptr<const void> owner) {
  // The device address keeps the backing's place in its page, so that elements are aligned there as they are here.
  const auto skip = reinterpret_cast<uintptr_t>(backing) % static_cast<uintptr_t>(::sysconf(_SC_PAGESIZE));
  const uintptr_t address = reinterpret_cast<uintptr_t>(addresses.pages_) + skip;
  Block block{.backing = backing,
              .size_bytes = size_bytes,
              .reserved_bytes = addresses.bytes_,
              .adopted = true,
              .owner = std::move(owner)};
  std::unique_lock lock(mutex_);
  blocks_.emplace(address, std::move(block));
  addresses.pages_ = nullptr;
  return reinterpret_cast<void*>(address);
}

bool SimMemory::release(void* address) {
  std::unique_lock lock(mutex_);
  const auto found = blocks_.find(reinterpret_cast<uintptr_t>(address));
  if (found == blocks_.end()) return false;
  const Block block = std::move(found->second);
  blocks_.erase(found);
  if (!block.adopted) used_bytes_ -= block.reserved_bytes;
  destroy(reinterpret_cast<uintptr_t>(address), block);
  return true;
}

void SimMemory::destroy(uintptr_t address, const Block& block) {
  const auto page = static_cast<uintptr_t>(::sysconf(_SC_PAGESIZE));
  void* pages = reinterpret_cast<void*>(address / page * page);
  if (block.adopted) {
    ::munmap(pages, block.reserved_bytes);
    return;
  }
  const bool is_default = block.kind == Kind::kDefault;
  if (is_default) ::munmap(pages, block.reserved_bytes);
  ::munmap(block.backing, block.reserved_bytes);
  (is_default ? counters().device_blocks : counters().host_blocks) -= 1;
  (is_default ? counters().device_bytes : counters().host_bytes) -= static_cast<int64_t>(block.reserved_bytes);
}

Result<std::byte*> SimMemory::resolve(const void* address, size_t size_bytes) const {
  const auto wanted = reinterpret_cast<uintptr_t>(address);
  std::shared_lock lock(mutex_);
  auto found = blocks_.upper_bound(wanted);
  TENON_INVALID_IF(found == blocks_.begin(), "Address {:#x} is not in the device's memory.", wanted);
  --found;
  const size_t offset = wanted - found->first;
  TENON_INVALID_IF(offset > found->second.size_bytes, "Address {:#x} is not in the device's memory.", wanted);
  TENON_INVALID_IF(size_bytes > found->second.size_bytes - offset,
                   "{} bytes at offset {} leave their block of {} bytes of device memory.", size_bytes, offset,
                   found->second.size_bytes);
  return found->second.backing + offset;
}

}  // namespace tenon::sim
