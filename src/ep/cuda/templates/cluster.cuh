// Blocks of a cluster, which write into each other's shared memory (compute capability 9.0 and up). The fake plugin has
// a file of the same name for the host.
#pragma once

namespace tenon::cuda::device {

// A block that has begun says so, and waits for the others before it writes into their memory.
__device__ __forceinline__ void announce_block() {
#if __CUDA_ARCH__ >= 900
  asm volatile("barrier.cluster.arrive.relaxed.aligned;" ::: "memory");
#endif
}
__device__ __forceinline__ void await_announced() {
#if __CUDA_ARCH__ >= 900
  asm volatile("barrier.cluster.wait.aligned;" ::: "memory");
#endif
}
// All threads of all blocks meet, and see what the others have written.
__device__ __forceinline__ void sync_cluster() {
#if __CUDA_ARCH__ >= 900
  asm volatile("barrier.cluster.arrive.release.aligned;\nbarrier.cluster.wait.acquire.aligned;" ::: "memory");
#endif
}
// A block's own memory, for a variable in shared memory that others write: a kernel has one.
template <typename Memory>
__device__ __forceinline__ Memory& memory_of_block(Memory& shared) {
  return shared;
}
// Writes to the place that `own` has in the shared memory of block `rank`.
__device__ __forceinline__ void store_at(unsigned rank, float* own, float v) {
#if __CUDA_ARCH__ >= 900
  const unsigned at = static_cast<unsigned>(__cvta_generic_to_shared(own));
  asm volatile("{\n.reg .b32 to;\nmapa.shared::cluster.u32 to, %0, %1;\nst.shared::cluster.f32 [to], %2;\n}" ::"r"(at),
               "r"(rank), "f"(v)
               : "memory");
#else
  *own = v;
#endif
}

}  // namespace tenon::cuda::device
