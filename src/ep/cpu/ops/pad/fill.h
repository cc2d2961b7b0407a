// Copies of tensors with something around them, shared by the kernels of Pad and of slices in blocks.
#pragma once

#include <cstddef>

#include <tenon/thread_pool.h>

#include "ops/pad.h"

namespace tenon::cpu::ref {

// Fills y, of the shape pad.output, from x of the shape `in`. Elements have 1, 2, 4, 8, 16 or 32 bytes; `value` is one.
void fill_padded(Shape in, PadDesc pad, size_t bytes, const std::byte* x, const std::byte* value, std::byte* y,
                 ThreadPool& pool);

}  // namespace tenon::cpu::ref
