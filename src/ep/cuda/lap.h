// A stopwatch for traces.
#pragma once

#include <cstdint>
#include <utility>

#include "base/deadline.h"

namespace tenon::cuda {

class Lap {
 public:
  // Milliseconds since it was asked last, or made.
  double ms() {
    const int64_t now = monotonic_ns();
    return static_cast<double>(now - std::exchange(since_, now)) / 1e6;
  }

 private:
  int64_t since_ = monotonic_ns();
};

}  // namespace tenon::cuda
