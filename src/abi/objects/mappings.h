// May memory that a program or a plugin points to be read, or called?
#pragma once

#include <cstddef>

namespace tenon::abi {

// May `size_bytes` at `address` be read; does `address` lie in code? Asked of the system's list of mappings, which is
// kept and read again when it does not know an address. True where the system has no such list.
bool is_readable(const void* address, size_t size_bytes);
bool is_code(const void* address);
// The list is stale after a library is unloaded.
void forget_mappings();

}  // namespace tenon::abi
