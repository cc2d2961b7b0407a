// Products of small tiles by the tensor cores, and pairs of 16-bit floats in a register. All threads of a block call
// multiply_tile() equally often: in the fake plugin, which has a file of the same name for the host, it is a meeting.
#pragma once

#include "ep/cuda/templates/conversions.cuh"

namespace tenon::cuda::device {

// c += a * b of a warp: a has 16 rows of 16 elements, b 8 columns of 16. With g = lane / 4 and q = lane % 4, a lane has of
// a the pairs at rows g and g + 8 and depths 2q and 2q + 8 (a[0], a[1] and a[2], a[3]), of b those of column g at the same
// depths, and of c the rows g (c[0], c[1]) and g + 8 at columns 2q and 2q + 1. (PTX ISA, mma.m16n8k16.)
template <typename T>
__device__ __forceinline__ void multiply_tile(float (&c)[4], const unsigned (&a)[4], unsigned b0, unsigned b1);
template <>
__device__ __forceinline__ void multiply_tile<half_bits>(float (&c)[4], const unsigned (&a)[4], unsigned b0,
                                                         unsigned b1) {
  asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
      : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}
template <>
__device__ __forceinline__ void multiply_tile<bfloat_bits>(float (&c)[4], const unsigned (&a)[4], unsigned b0,
                                                           unsigned b1) {
  asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
      : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

}  // namespace tenon::cuda::device
