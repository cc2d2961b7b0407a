// Runs the threads of a block that meet at __syncthreads(): each is a context of its own, and they take turns from one
// meeting to the next.
#pragma once

#include <ucontext.h>

static ucontext_t scheduler, fibers[1024];
static char stacks[1024][16384];
static bool finished[1024];
static void (*body)(void**);
static void** arguments;
static void __syncthreads() { swapcontext(&fibers[threadIdx.x], &scheduler); }
static void one_thread() {
  body(arguments);
  finished[threadIdx.x] = true;
}
static void run_block(unsigned threads, void (*work)(void**), void** parameters) {
  body = work, arguments = parameters;
  for (unsigned t = 0; t < threads; ++t) {
    getcontext(&fibers[t]);
    fibers[t].uc_stack.ss_sp = stacks[t];
    fibers[t].uc_stack.ss_size = sizeof(stacks[t]);
    fibers[t].uc_link = &scheduler;
    finished[t] = false;
    makecontext(&fibers[t], one_thread, 0);
  }
  for (bool more = true; more;) {
    more = false;
    for (unsigned t = 0; t < threads; ++t) {
      if (finished[t]) continue;
      threadIdx.x = t;
      swapcontext(&scheduler, &fibers[t]);
      more = more || !finished[t];
    }
  }
}
