// The alignment that kernels need: they read and write up to 16 bytes at once.
#pragma once

#include <cstddef>

namespace tenon::cuda {

// Of inputs and outputs of a region. The device's metadata say it (ep/api/binding_alignment.h), and Tenon's host copies
// what begins elsewhere; in other hosts the plan does (compute/plan.h).
inline constexpr size_t kBindingAlignment = 16;

}  // namespace tenon::cuda
