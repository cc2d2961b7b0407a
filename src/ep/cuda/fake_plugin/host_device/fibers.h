// Runs the threads of a cluster's blocks (most often one block) that meet at __syncthreads(): each is a context of its
// own, and they take turns from one meeting to the next.
#pragma once

#include <ucontext.h>

// A cluster has at most 16 blocks; those of such clusters have few threads.
static constexpr unsigned kMostFibers = 4096;
static ucontext_t scheduler, fibers[kMostFibers];
static char stacks[kMostFibers][16384];
static bool finished[kMostFibers];
static unsigned fiber, block_of_cluster, cluster_blocks, turn;
static void (*body)(void**);
static void** arguments;
static void __syncthreads() { swapcontext(&fibers[fiber], &scheduler); }
static void __syncwarp() { __syncthreads(); }
static void one_thread() {
  body(arguments);
  finished[fiber] = true;
}
static void run_blocks(unsigned blocks, unsigned threads, void (*work)(void**), void** parameters) {
  body = work, arguments = parameters, cluster_blocks = blocks;
  const unsigned first = blockIdx.z;
  for (unsigned f = 0; f < blocks * threads; ++f) {
    getcontext(&fibers[f]);
    fibers[f].uc_stack.ss_sp = stacks[f];
    fibers[f].uc_stack.ss_size = sizeof(stacks[f]);
    fibers[f].uc_link = &scheduler;
    finished[f] = false;
    makecontext(&fibers[f], one_thread, 0);
  }
  for (bool more = true; more; ++turn) {
    more = false;
    for (fiber = 0; fiber < blocks * threads; ++fiber) {
      if (finished[fiber]) continue;
      block_of_cluster = fiber / threads;
      blockIdx.z = first + block_of_cluster;
      threadIdx.x = fiber % threads;
      swapcontext(&scheduler, &fibers[fiber]);
      more = more || !finished[fiber];
    }
  }
}
