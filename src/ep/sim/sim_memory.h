// The simulated device's memory. Addresses of DEFAULT memory are pages without access rights; the contents are stored
// elsewhere, and only the device finds them. So a host that accesses device memory crashes at once, also while a stream
// runs, and a wrong address that a kernel gets is an error.
//
// Fresh memory is filled with a pattern that is NaN in f16, bf16 and f32. HOST_ACCESSIBLE memory can be read by both.
// Threads: every function from any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <shared_mutex>
#include <utility>

#include "base/status.h"

namespace tenon::sim {

inline constexpr uint16_t kPoison = 0xFFA5;
void poison(void* memory, size_t size_bytes);

class SimMemory {
 public:
  enum class Kind : uint8_t { kDefault, kHostAccessible };

  explicit SimMemory(size_t limit_bytes) : limit_bytes_(limit_bytes) {}
  ~SimMemory();
  SimMemory(const SimMemory&) = delete;
  SimMemory& operator=(const SimMemory&) = delete;

  // Page-aligned. Errors: kResourceExhausted beyond the device's limit.
  Result<void*> allocate(size_t size_bytes, Kind kind);
  // Device addresses for memory that is already there (an import), in two steps, so that an import takes what can fail
  // before it takes the caller's handle. `owner` keeps the memory until release().
  class Addresses {
   public:
    Addresses(Addresses&& other) noexcept : pages_(std::exchange(other.pages_, nullptr)), bytes_(other.bytes_) {}
    Addresses& operator=(Addresses&&) = delete;
    ~Addresses();

   private:
    friend class SimMemory;
    Addresses(void* pages, size_t bytes) : pages_(pages), bytes_(bytes) {}
    void* pages_;
    size_t bytes_;
  };
  static Result<Addresses> reserve(size_t size_bytes);
  void* adopt(Addresses addresses, std::byte* backing, size_t size_bytes, std::shared_ptr<const void> owner);
  // Takes what allocate() or adopt() gave; an address that is none is ignored and reported as false.
  bool release(void* address);

  // Where the device finds the bytes of a device address. Errors: kInvalidArgument for an address that is not in live
  // device memory, or a range that leaves its block.
  Result<std::byte*> resolve(const void* address, size_t size_bytes) const;

 private:
  struct Block {
    std::byte* backing = nullptr;
    size_t size_bytes = 0;      // asked for
    size_t reserved_bytes = 0;  // whole pages at the device address
    Kind kind = Kind::kDefault;
    bool adopted = false;
    std::shared_ptr<const void> owner;
  };
  void destroy(uintptr_t address, const Block& block);

  const size_t limit_bytes_;
  size_t used_bytes_ = 0;
  mutable std::shared_mutex mutex_;
  std::map<uintptr_t, Block> blocks_;
};

}  // namespace tenon::sim
