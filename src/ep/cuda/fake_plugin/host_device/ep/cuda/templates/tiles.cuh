// Products of small tiles on the host, instead of the plugin's file of this name.
#pragma once

#include "ep/cuda/templates/conversions.cuh"

namespace tenon::cuda::device {

static float element_of_pair(half_bits, unsigned pair, int i) { return from_half({(unsigned short)(pair >> 16 * i)}); }
static float element_of_pair(bfloat_bits, unsigned pair, int i) {
  return from_bfloat({(unsigned short)(pair >> 16 * i)});
}

static unsigned tile_operands[1024][6];

template <typename T>
static void multiply_tile(float (&c)[4], const unsigned (&a)[4], unsigned b0, unsigned b1) {
  const unsigned own[6] = {a[0], a[1], a[2], a[3], b0, b1};
  for (int i = 0; i < 6; ++i) tile_operands[threadIdx.x][i] = own[i];
  __syncthreads();
  const int warp = threadIdx.x / 32 * 32, g = threadIdx.x % 32 / 4, q = threadIdx.x % 4;
  for (int i = 0; i < 4; ++i) {
    const int row = g + i / 2 * 8, column = 2 * q + i % 2;
    for (int k = 0; k < 16; ++k) {
      const unsigned* const of_a = tile_operands[warp + row % 8 * 4 + k % 8 / 2];
      const unsigned* const of_b = tile_operands[warp + column * 4 + k % 8 / 2];
      c[i] += element_of_pair(T{}, of_a[row / 8 + k / 8 * 2], k % 2) * element_of_pair(T{}, of_b[4 + k / 8], k % 2);
    }
  }
  __syncthreads();
}

}  // namespace tenon::cuda::device
