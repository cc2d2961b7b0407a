// The time since some fixed point, the same for all processes of the machine.
#pragma once

#include <chrono>
#include <cstdint>

namespace tenon::programs {

inline int64_t now_ns() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

}  // namespace tenon::programs
