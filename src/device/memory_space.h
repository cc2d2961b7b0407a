// Comparisons of memory spaces that the public header does not need.
#pragma once

#include <tenon/types.h>

namespace tenon {

// The same memory space: what is known of alignment may differ.
bool same_memory(const MemorySpace& a, const MemorySpace& b);

// CPU memory in the words of S3.1: the host may read and write it (once the work that uses it is done).
bool host_can_address(const MemorySpace& space);

}  // namespace tenon
