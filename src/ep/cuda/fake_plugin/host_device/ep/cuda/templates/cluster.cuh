// Clusters on the host, instead of the plugin's file of this name: their blocks take turns (fibers.h).
#pragma once

namespace tenon::cuda::device {

static long block_bytes;

static void announce_block() {}
static void await_announced() {}
static void sync_cluster() {
  static unsigned meetings, arrived, met_in;
  const unsigned before = meetings;
  if (++arrived == cluster_blocks * blockDim.x) arrived = 0, met_in = turn, ++meetings;
  // All threads go on in the next turn, so that those of a block stay together.
  do __syncthreads();
  while (meetings == before || turn == met_in);
}
// A block's own memory: a kernel has one such variable.
template <typename Memory>
static Memory& memory_of_block(Memory&) {
  static Memory blocks[16];
  block_bytes = sizeof(Memory);
  return blocks[block_of_cluster];
}
static void store_at(unsigned rank, float* own, float v) {
  *(float*)((char*)own + ((long)rank - (long)block_of_cluster) * block_bytes) = v;
}

}  // namespace tenon::cuda::device
