// The phases of a transposed convolution: the outputs o with the same (o + pad) % stride share their taps, and are an
// ordinary convolution with stride 1. There is one for each of the stride x stride places.
#pragma once

#include <cstdint>

#include "ops/window.h"

namespace tenon::cpu {

// Tap first + i * stride of the node, for each i: a phase's share of the kernel.
inline int64_t taps_from(const WindowAxis& axis, int64_t first) {
  return first < axis.kernel ? (axis.kernel - first + axis.stride - 1) / axis.stride : 0;
}

// One phase of one axis, as a convolution with stride 1 whose tap t is tap first + (kernel - 1 - t) * stride of the
// node.
struct Phase {
  WindowAxis axis;
  int64_t first_tap = 0;
  int64_t first_out = 0;  // output j of the phase is output first_out + j * stride of the node
};

inline Phase phase_of(const WindowAxis& axis, int64_t out) {
  Phase phase;
  const int64_t shifted = out + axis.pad_begin;
  phase.first_tap = shifted % axis.stride;
  phase.first_out = out;
  phase.axis.in = axis.in;
  phase.axis.out = (axis.out - out + axis.stride - 1) / axis.stride;
  phase.axis.kernel = taps_from(axis, phase.first_tap);
  phase.axis.pad_begin = phase.axis.kernel - 1 - shifted / axis.stride;
  return phase;
}

}  // namespace tenon::cpu
