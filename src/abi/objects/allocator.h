// OrtAllocator: the default CPU allocator, and calls on allocators that others wrote.
#pragma once

#include <tenon/onnxruntime_c_api.h>
#include <tenon/status.h>

#include <cstddef>
#include <memory>
#include <string_view>

#include "abi/objects/memory_info.h"

namespace tenon::abi {

// Host memory aligned to 64 bytes. Lives as long as the process; ReleaseAllocator leaves it alone.
OrtAllocator* default_allocator() noexcept;

// Bytes from an allocator: checks the allocator's members and what it returns. `size_bytes` 0 gives null.
Result<void*> allocate(OrtAllocator* allocator, size_t size_bytes);
// Back to the allocator that it came from, if that can free.
void free_block(OrtAllocator* allocator, void* block) noexcept;
// A zero-terminated copy of `text` that the program frees with the allocator.
OrtStatus* copy_text(OrtAllocator* allocator, std::string_view text, char** out) noexcept;

// An allocator that the program releases with ReleaseAllocator: a wrapper around one that lives elsewhere (an env's, a
// session's, a plugin's). `keep_alive` is dropped with the wrapper.
OrtAllocator* borrow_allocator(OrtAllocator* inner, std::shared_ptr<const void> keep_alive);

}  // namespace tenon::abi
