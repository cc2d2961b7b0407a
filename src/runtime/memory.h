// Memory of the runtime: 64-byte aligned, zeroed, from the heap when small and from the kernel when large.
#pragma once

#include <cstddef>
#include <memory>

#include "base/status.h"
#include "device/device.h"

namespace tenon {

// When a large block gets its pages: kAtOnce where all of it will be written.
enum class Pages { kWhenTouched, kAtOnce };

// Zeroed memory of at least `size_bytes`, freed with the last reference. Pages of large blocks come from the kernel, so
// they cost nothing until they are touched and go back at once.
Result<std::shared_ptr<std::byte>> allocate_zeroed(size_t size_bytes, Pages pages = Pages::kWhenTouched);

// Memory of a device's allocator, aligned as that of allocate_zeroed and with as much room behind it; not cleared. A
// handle, where the allocator gives those, as it is.
Result<std::shared_ptr<std::byte>> allocate_device(DeviceAllocator& allocator, size_t size_bytes);

}  // namespace tenon
