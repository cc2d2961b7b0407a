// Products of 8-bit integers with exact 32-bit sums on tensor cores. A block computes 64x64 sums; four warps share
// them.
#include "common.cuh"
#include "ep/cuda/compute/integer_params.h"

namespace tenon::cuda::device {

namespace {

constexpr int kTile = 64, kThreads = 128, kStages = 4;
constexpr int kDepthBytes = 64, kChunks = kDepthBytes / 16, kTileBytes = kTile * kDepthBytes;

// Chunks of 16 bytes are permuted within a row, so that eight rows of one column lie in different banks.
__device__ __forceinline__ uint32_t place(int row, int chunk) {
  return static_cast<uint32_t>(row * kDepthBytes + ((chunk ^ ((row >> 1) & 3)) << 4));
}

template <typename A, typename B>
__device__ __forceinline__ void multiply_bytes(int (&c)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1);
#define TENON_MULTIPLY_BYTES(A, B, types)                                                                             \
  template <>                                                                                                         \
  __device__ __forceinline__ void multiply_bytes<A, B>(int(&c)[4], const uint32_t(&a)[4], uint32_t b0, uint32_t b1) { \
    asm("mma.sync.aligned.m16n8k32.row.col.s32." types ".s32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"   \
        : "+r"(c[0]), "+r"(c[1]), "+r"(c[2]), "+r"(c[3])                                                              \
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));                                              \
  }
TENON_MULTIPLY_BYTES(uint8_t, uint8_t, "u8.u8")
TENON_MULTIPLY_BYTES(uint8_t, int8_t, "u8.s8")
TENON_MULTIPLY_BYTES(int8_t, uint8_t, "s8.u8")
TENON_MULTIPLY_BYTES(int8_t, int8_t, "s8.s8")

// A tile of `rows` rows from `first` on, at `depth` of their bytes, into shared memory; zeros outside.
__device__ __forceinline__ void load_tile(uint32_t to, const unsigned char* from, int first, int rows, int depth,
                                          int whole_depth) {
#pragma unroll
  for (int i = 0; i < kTile * kChunks / kThreads; ++i) {
    const int at = threadIdx.x + i * kThreads, row = at / kChunks, chunk = at % kChunks;
    const bool valid = first + row < rows && depth + chunk * 16 < whole_depth;
    const int64_t offset = static_cast<int64_t>(first + row) * whole_depth + depth + chunk * 16;
    copy_async(to + place(row, chunk), from + (valid ? offset : 0), valid);
  }
}

template <typename A, typename B>
__device__ void integer_product(const IntegerProductParams& p) {
  __shared__ __align__(128) unsigned char shared[kStages * 2 * kTileBytes];
  const uint32_t base = shared_address(shared);
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  const int warp_row = warp / 2 * 32, warp_column = warp % 2 * 32;
  const int first_row = blockIdx.x * kTile;
  const int steps = (p.depth + kDepthBytes - 1) / kDepthBytes;
  wait_for_previous_kernel();
  let_next_kernel_start();
  // Columns and batches beyond what a grid holds are taken in turns.
  for (int matrix = blockIdx.z; matrix < p.batch; matrix += gridDim.z)
    for (int first_column = blockIdx.y * kTile; first_column < p.columns; first_column += gridDim.y * kTile) {
      const auto* const a = static_cast<const unsigned char*>(p.a) + matrix * p.a_matrix;
      const auto* const b = static_cast<const unsigned char*>(p.b) + matrix * p.b_matrix;
      const auto load = [&](int step) {
        if (step < steps) {
          const uint32_t to = base + step % kStages * 2 * kTileBytes;
          load_tile(to, a, first_row, p.rows, step * kDepthBytes, p.depth);
          load_tile(to + kTileBytes, b, first_column, p.columns, step * kDepthBytes, p.depth);
        }
        commit_copies();
      };
      int sums[2][4][4] = {};
      __syncthreads();  // the tile before this one may still be read
#pragma unroll
      for (int s = 0; s < kStages - 1; ++s) load(s);
      for (int step = 0; step < steps; ++step) {
        wait_for_copies<kStages - 2>();
        __syncthreads();
        load(step + kStages - 1);
        const uint32_t from = base + step % kStages * 2 * kTileBytes;
#pragma unroll
        for (int c = 0; c < kChunks; c += 2) {
          uint32_t left[2][4], right[2][4];
#pragma unroll
          for (int m = 0; m < 2; ++m)
            load_matrices(left[m], from + place(warp_row + m * 16 + lane % 16, c + lane / 16));
#pragma unroll
          for (int n = 0; n < 2; ++n)
            load_matrices(
                right[n],
                from + kTileBytes + place(warp_column + n * 16 + (lane & 7) + (lane >> 4 << 3), c + (lane >> 3 & 1)));
#pragma unroll
          for (int m = 0; m < 2; ++m)
#pragma unroll
            for (int n = 0; n < 4; ++n)
              multiply_bytes<A, B>(sums[m][n], left[m], right[n / 2][n % 2 * 2], right[n / 2][n % 2 * 2 + 1]);
        }
      }
      wait_for_copies<0>();
#pragma unroll
      for (int m = 0; m < 2; ++m)
#pragma unroll
        for (int n = 0; n < 4; ++n)
#pragma unroll
          for (int i = 0; i < 4; ++i) {
            const int row = first_row + warp_row + m * 16 + lane / 4 + i / 2 * 8;
            const int column = first_column + warp_column + n * 8 + lane % 4 * 2 + i % 2;
            if (row >= p.rows || column >= p.columns) continue;
            const int64_t at_a = static_cast<int64_t>(matrix) * p.rows + row;
            const int64_t at_b = (p.b_matrix != 0 ? static_cast<int64_t>(matrix) * p.columns : 0) + column;
            // Unsigned, so that what does not fit wraps.
            auto sum = static_cast<uint32_t>(sums[m][n][i]);
            uint32_t a_zero = 0, b_zero = 0;
            if (p.a_zero != nullptr)
              a_zero = static_cast<uint32_t>(static_cast<int>(static_cast<const A*>(p.a_zero)[at_a * p.a_zero_step]));
            if (p.b_zero != nullptr)
              b_zero = static_cast<uint32_t>(static_cast<int>(static_cast<const B*>(p.b_zero)[column * p.b_zero_step]));
            if (p.a_zero != nullptr) sum -= a_zero * static_cast<uint32_t>(p.b_sums[at_b]);
            if (p.b_zero != nullptr) sum -= b_zero * static_cast<uint32_t>(p.a_sums[at_a]);
            sum += static_cast<uint32_t>(p.summed_depth) * a_zero * b_zero;
            p.y[at_a * p.columns + column] = static_cast<int32_t>(sum);
          }
    }
}

}  // namespace

}  // namespace tenon::cuda::device

#define TENON_INTEGER_KERNEL(name, A, B)                                            \
  extern "C" __global__ void __launch_bounds__(128)                                 \
      integer_##name(const __grid_constant__ tenon::cuda::IntegerProductParams p) { \
    tenon::cuda::device::integer_product<A, B>(p);                                  \
  }

TENON_INTEGER_KERNEL(u8_u8, uint8_t, uint8_t)
TENON_INTEGER_KERNEL(u8_s8, uint8_t, int8_t)
TENON_INTEGER_KERNEL(s8_u8, int8_t, uint8_t)
TENON_INTEGER_KERNEL(s8_s8, int8_t, int8_t)
