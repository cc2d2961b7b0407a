// Writes one element again and again.
#pragma once

#include <cstddef>
#include <cstdint>

namespace tenon::cpu::nn {

// `count` copies of an element of 1, 2, 4, 8 or 16 bytes, side by side. One task of one thread.
void fill_elements(void* to, const void* element, size_t element_bytes, int64_t count);

}  // namespace tenon::cpu::nn
