// Loops that do nothing but what one core does best, to measure the machine's peaks.
#pragma once

#include <cstdint>

namespace tenon::cpu {

struct ProbeTable {
  // Multiplies and adds in registers; returns how many float32 operations that were. `*sink` gets the result, so that
  // the work is not left out.
  int64_t (*multiply_add)(int64_t rounds, float* sink);
  // Reads `count` floats, a multiple of 256, at an address that is a multiple of 64.
  float (*read)(const float* data, int64_t count);
};

const ProbeTable& probe_table();

}  // namespace tenon::cpu
