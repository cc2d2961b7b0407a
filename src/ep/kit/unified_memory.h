// Unified memory of an EP device, for which the C ABI has no word: an entry of its EP metadata. Stock hosts ignore it.
#pragma once

namespace tenon {

// "1": all DEFAULT memory of the device is the host's too, at the same addresses: what its allocators give, what
// programs
//   wrap with its memory info, what it imports.
// "allocators": only what its allocators give, of the memory info that the device names.
inline constexpr const char* kUnifiedMemoryKey = "tenon.unified_memory";
inline constexpr const char* kUnifiedAll = "1";
inline constexpr const char* kUnifiedAllocators = "allocators";

}  // namespace tenon
