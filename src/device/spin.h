// Polls for a short time before a blocking wait. Sleeping and waking cost tens of microseconds; a signal that comes
// soon avoids them.
#pragma once

#include <cstdint>

#include "base/deadline.h"

#if defined(__x86_64__) || defined(__i386__)
#include <immintrin.h>
#endif

namespace tenon {

inline constexpr int64_t kWaitSpinNs = 20'000;

inline void cpu_relax() {
#if defined(__x86_64__) || defined(__i386__)
  _mm_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

// Polls `done` for at most `limit_ns`; true when it became true.
template <typename Done>
bool spin_until(int64_t limit_ns, const Done& done) {
  if (done()) return true;
  if (limit_ns <= 0) return false;
  const int64_t end_ns = monotonic_ns() + limit_ns;
  do {
    for (int i = 0; i < 32; ++i) {
      cpu_relax();
      if (done()) return true;
    }
  } while (monotonic_ns() < end_ns);
  return false;
}

}  // namespace tenon
