// The peak rates of this machine, to say how much of them a kernel reaches.
//
//   auto peaks = tenon::measure_machine_peaks(1);
//   std::printf("%.1f GFLOP/s, %.1f GB/s\n", peaks->flops / 1e9, peaks->bytes / 1e9);
//
// Threads: any; other work at the same time makes the figures smaller.
#pragma once

#include "tenon/export.h"
#include "tenon/status.h"

namespace tenon {

struct MachinePeaks {
  double flops = 0;  // float32 operations a second in registers; a multiplication and an addition are two
  double bytes = 0;  // read from memory a second, beyond the caches
};

// Measures on `threads` threads (0: as many as CPUs) for about a tenth of a second, in 64 MiB of memory a thread.
// Errors: those of ThreadPool::create, kResourceExhausted without that memory.
TENON_API Result<MachinePeaks> measure_machine_peaks(int threads);

}  // namespace tenon
