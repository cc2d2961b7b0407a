// Runs the threads of a block that never meet, one after the other.
#pragma once

static void run_blocks(unsigned /*blocks*/, unsigned threads, void (*work)(void**), void** parameters) {
  for (threadIdx.x = 0; threadIdx.x < threads; ++threadIdx.x) work(parameters);
}
