// The metadata entry by which a plugin tells Tenon's host the alignment that its kernels need.
//
// ONNX Runtime's ABI has an alignment in OrtMemoryInfo, but there it is a promise about the allocator, and stock hosts
// copy what a program binds in memory that promises less. An EP whose device has `tenon.binding_alignment` = "16" in
// its EP metadata says what its kernels need of tensors in the device's memory, of both kinds: Tenon's host then plans
// a copy of what begins elsewhere, counts and explains it, and refuses it in strict mode, so that the EP never meets
// one. Other hosts ignore the entry: there the EP has to copy by itself. A power of two from 1 to 64.
#pragma once

#include <cstdint>

namespace tenon {

inline constexpr const char* kBindingAlignmentKey = "tenon.binding_alignment";
inline constexpr uint32_t kMostBindingAlignment = 64;  // what the host's own memory has

}  // namespace tenon
