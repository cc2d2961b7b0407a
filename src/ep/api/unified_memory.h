// Unified memory of an EP device, for which the C ABI has no word: an entry of its EP metadata. Stock hosts ignore it.
#pragma once

namespace tenon {

// "1": the host reads and writes all DEFAULT memory of the device at the same addresses: memory from its allocators,
// memory that programs wrap with its memory info, and imported memory.
// "allocators": only memory from the allocators of the memory info that the device names.
inline constexpr const char* kUnifiedMemoryKey = "tenon.unified_memory";
inline constexpr const char* kUnifiedAll = "1";
inline constexpr const char* kUnifiedAllocators = "allocators";

}  // namespace tenon
