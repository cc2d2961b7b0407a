// 16-bit floats, copies into shared memory and the order between kernels, in the instructions of a GPU. The fake plugin
// has a file of the same name for the host (fake_plugin/host_device).
#pragma once

namespace tenon::cuda::device {

struct half_bits {
  unsigned short bits;
};
struct bfloat_bits {
  unsigned short bits;
};

__device__ __forceinline__ float from_half(half_bits v) {
  float f;
  asm("cvt.f32.f16 %0, %1;" : "=f"(f) : "h"(v.bits));
  return f;
}
__device__ __forceinline__ half_bits to_half(float f) {
  half_bits v;
  asm("cvt.rn.f16.f32 %0, %1;" : "=h"(v.bits) : "f"(f));
  return v;
}
__device__ __forceinline__ float from_bfloat(bfloat_bits v) {
  return __uint_as_float(static_cast<unsigned>(v.bits) << 16);
}
__device__ __forceinline__ bfloat_bits to_bfloat(float f) {
  bfloat_bits v;
  asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(v.bits) : "f"(f));
  return v;
}

// 2 to this power, to 22 bits.
__device__ __forceinline__ float power_of_two(float v) {
  float f;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(f) : "f"(v));
  return f;
}

// Launches may overlap the end of the one before (programmatic dependent launch). Before the wait a kernel may read
// constants alone.
__device__ __forceinline__ void wait_for_previous_kernel() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}
// The next kernel may start, and read constants: its own wait is for the end of this one.
__device__ __forceinline__ void let_next_kernel_start() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
#endif
}
// What is in memory now, past the processor's own cache: also before the wait, where it may still change.
__device__ __forceinline__ int load_now(const int* at) {
  int v;
  asm volatile("ld.relaxed.gpu.global.s32 %0, [%1];" : "=r"(v) : "l"(at) : "memory");
  return v;
}
__device__ __forceinline__ long long load_now(const long long* at) {
  long long v;
  asm volatile("ld.relaxed.gpu.global.s64 %0, [%1];" : "=l"(v) : "l"(at) : "memory");
  return v;
}
// A kernel calls this before it touches memory.
__device__ __forceinline__ void begin_kernel() {
  wait_for_previous_kernel();
  let_next_kernel_start();
}

// Copies 4, 8 or 16 bytes to shared memory, or zeros where not `inside`; `src` points to memory in any case. No thread
// waits for it, and it takes no registers. Both addresses are multiples of kBytes.
template <int kBytes>
__device__ __forceinline__ void copy_to_shared(void* dst, const void* src, bool inside) {
  const unsigned to = static_cast<unsigned>(__cvta_generic_to_shared(dst));
  const int size_bytes = inside ? kBytes : 0;
  if constexpr (kBytes == 16) {
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(to), "l"(src), "r"(size_bytes) : "memory");
  } else {
    asm volatile("cp.async.ca.shared.global [%0], [%1], %2, %3;" ::"r"(to), "l"(src), "n"(kBytes), "r"(size_bytes)
                 : "memory");
  }
}
// Waits for this thread's copies; a barrier then shows them to the others.
__device__ __forceinline__ void wait_for_copies() { asm volatile("cp.async.wait_all;" ::: "memory"); }

}  // namespace tenon::cuda::device
