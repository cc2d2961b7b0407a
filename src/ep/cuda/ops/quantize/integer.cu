// Products of 8-bit integers with exact 32-bit sums on tensor cores. A block computes a tile of 64x64 sums, or of
// 128x64 or 128x128 where there are enough for all processors; its warps share them, two along the rows, 32 columns
// each.
#include "ep/cuda/ops/common.cuh"
#include "ep/cuda/ops/quantize/params.h"

namespace tenon::cuda::device {

namespace {

constexpr int kDepthBytes = 64, kChunks = kDepthBytes / 16;

// Chunks of 16 bytes are permuted within a row, so that eight rows of one column lie in different banks.
__device__ __forceinline__ uint32_t swizzled(int row, int chunk) {
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
template <int kLines, int kThreads>
__device__ __forceinline__ void load_tile(uint32_t to, const unsigned char* from, int first, int rows, int depth,
                                          int whole_depth) {
#pragma unroll
  for (int i = 0; i < kLines * kChunks / kThreads; ++i) {
    const int at = threadIdx.x + i * kThreads, row = at / kChunks, chunk = at % kChunks;
    const bool valid = first + row < rows && depth + chunk * 16 < whole_depth;
    const int64_t offset = static_cast<int64_t>(first + row) * whole_depth + depth + chunk * 16;
    copy_async(to + swizzled(row, chunk), from + (valid ? offset : 0), valid);
  }
}

// The same for tiles whose rows are the windows of an image's pixels, one step along the depth after the other: a
// thread goes through its 16 bytes of each step, for all of its rows.
template <bool kUsed, int kLines, int kThreads>
class Windows {
 public:
  __device__ __forceinline__ Windows(const IntegerProductParams& p, int first) : channel_(threadIdx.x % kChunks * 16) {
    if constexpr (kUsed) find_pixels(p, first);
  }
  __device__ __forceinline__ void load(uint32_t to, const IntegerProductParams& p) {
#pragma unroll
    for (int i = 0; i < kCount; ++i) {
      const int at = threadIdx.x + i * kThreads, row = at / kChunks, chunk = at % kChunks;
      const int h = top_[i] + kernel_row_ * p.dilation_h, v = left_[i] + kernel_column_ * p.dilation_w;
      const bool inside = h >= 0 && h < p.in_h && v >= 0 && v < p.in_w;
      const bool valid = there_[i] && kernel_row_ < p.kernel_h && (inside || p.outside != nullptr);
      const void* from = p.a;
      if (valid) from = inside ? from_[i] + (static_cast<int64_t>(h) * p.in_w + v) * p.channels + channel_ : p.outside;
      copy_async(to + swizzled(row, chunk), from, valid);
    }
    channel_ += kDepthBytes;
    skip_taps(p);
  }

 private:
  static constexpr int kCount = kLines * kChunks / kThreads;
  __device__ __forceinline__ void find_pixels(const IntegerProductParams& p, int first) {
#pragma unroll
    for (int i = 0; i < kCount; ++i) {
      const int pixel = first + (threadIdx.x + i * kThreads) / kChunks;
      const int row = pixel / p.out_w, image = row / p.out_h;
      there_[i] = pixel < p.rows;
      top_[i] = (row - image * p.out_h) * p.stride_h - p.pad_h;
      left_[i] = (pixel - row * p.out_w) * p.stride_w - p.pad_w;
      from_[i] = static_cast<const unsigned char*>(p.a) + static_cast<int64_t>(image) * p.in_h * p.in_w * p.channels;
    }
    skip_taps(p);
  }
  __device__ __forceinline__ void skip_taps(const IntegerProductParams& p) {
    while (channel_ >= p.channels) {
      channel_ -= p.channels;
      if (++kernel_column_ == p.kernel_w) kernel_column_ = 0, ++kernel_row_;
    }
  }
  const unsigned char* from_[kCount];
  int top_[kCount], left_[kCount];
  bool there_[kCount];
  int channel_, kernel_row_ = 0, kernel_column_ = 0;
};

// The sums of two columns beside each other, of which the second may not be there, as quantised numbers.
__device__ __forceinline__ void write_bytes(const IntegerProductParams& p, const int (&sums)[2],
                                            const float (&scales)[2], int64_t at, bool pairs, int column) {
  const float zero = p.signed_result != 0 ? static_cast<float>(*static_cast<const int8_t*>(p.y_zero))
                                          : static_cast<float>(*static_cast<const uint8_t*>(p.y_zero));
  const float least = p.signed_result != 0 ? -128.0f : 0.0f, most = p.signed_result != 0 ? 127.0f : 255.0f;
  uint8_t results[2];
#pragma unroll
  for (int i = 0; i < 2; ++i) {
    const float value = fminf(fmaxf(rintf(static_cast<float>(sums[i]) * scales[i]) + zero, least), most);
    results[i] = static_cast<uint8_t>(static_cast<int>(value));
  }
  uint8_t* const y = static_cast<uint8_t*>(p.y) + at;
  if (pairs && column < p.columns) {
    *reinterpret_cast<uchar2*>(y) = make_uchar2(results[0], results[1]);
    return;
  }
#pragma unroll
  for (int i = 0; i < 2; ++i)
    if (column + i < p.columns) y[i] = results[i];
}

template <typename A, typename B, int kRows, int kColumns, bool kWindows>
__device__ void integer_product(const IntegerProductParams& p) {
  constexpr int kThreads = 2 * kColumns, kStepBytes = (kRows + kColumns) * kDepthBytes;
  constexpr int kStages = kStepBytes > 12 * 1024 ? 3 : 4;  // 48 KiB at most
  constexpr int kM = kRows / 32, kN = 4;
  __shared__ __align__(128) unsigned char shared[kStages * kStepBytes];
  const uint32_t base = shared_address(shared);
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  const int warp_row = warp % 2 * (kRows / 2), warp_column = warp / 2 * 32;
  const int first_row = blockIdx.x * kRows;
  const int steps = (p.depth + kDepthBytes - 1) / kDepthBytes;
  wait_for_previous_kernel();
  let_next_kernel_start();
  // Columns and batches beyond what a grid holds are taken in turns.
  for (int matrix = blockIdx.z; matrix < p.batch; matrix += gridDim.z)
    for (int first_column = blockIdx.y * kColumns; first_column < p.columns; first_column += gridDim.y * kColumns) {
      const auto* const a = static_cast<const unsigned char*>(p.a) + matrix * p.a_matrix;
      const auto* const b = static_cast<const unsigned char*>(p.b) + matrix * p.b_matrix;
      [[maybe_unused]] Windows<kWindows, kRows, kThreads> windows(p, first_row);
      const auto load = [&](int step) {
        if (step < steps) {
          const uint32_t to = base + step % kStages * kStepBytes;
          if constexpr (kWindows) {
            windows.load(to, p);
          } else {
            load_tile<kRows, kThreads>(to, a, first_row, p.rows, step * kDepthBytes, p.depth);
          }
          load_tile<kColumns, kThreads>(to + kRows * kDepthBytes, b, first_column, p.columns, step * kDepthBytes,
                                        p.depth);
        }
        commit_copies();
      };
      int sums[kM][kN][4] = {};
      __syncthreads();  // the tile before this one may still be read
#pragma unroll
      for (int s = 0; s < kStages - 1; ++s) load(s);
      for (int step = 0; step < steps; ++step) {
        wait_for_copies<kStages - 2>();
        __syncthreads();
        load(step + kStages - 1);
        const uint32_t from = base + step % kStages * kStepBytes;
#pragma unroll
        for (int c = 0; c < kChunks; c += 2) {
          uint32_t left[kM][4], right[kN / 2][4];
#pragma unroll
          for (int m = 0; m < kM; ++m)
            load_matrices(left[m], from + swizzled(warp_row + m * 16 + lane % 16, c + lane / 16));
#pragma unroll
          for (int n = 0; n < kN / 2; ++n)
            load_matrices(right[n],
                          from + kRows * kDepthBytes +
                              swizzled(warp_column + n * 16 + (lane & 7) + (lane >> 4 << 3), c + (lane >> 3 & 1)));
#pragma unroll
          for (int m = 0; m < kM; ++m)
#pragma unroll
            for (int n = 0; n < kN; ++n)
              multiply_bytes<A, B>(sums[m][n], left[m], right[n / 2][n % 2 * 2], right[n / 2][n % 2 * 2 + 1]);
        }
      }
      wait_for_copies<0>();
      const int64_t b_first = p.b_matrix != 0 ? static_cast<int64_t>(matrix) * p.columns : 0;
      const bool bytes = p.y_scale != nullptr;
      // Two results beside each other are written at once where all rows begin at a multiple of that.
      const bool pairs = p.columns % 2 == 0 && reinterpret_cast<uintptr_t>(p.y) % sizeof(int2) == 0;
#pragma unroll
      for (int n = 0; n < kN; ++n) {
        const int column = first_column + warp_column + n * 8 + lane % 4 * 2;
        // Unsigned, so that what does not fit wraps.
        uint32_t b_sums[2] = {}, b_zeros[2] = {}, biases[2] = {};
        float scales[2] = {};
#pragma unroll
        for (int i = 0; i < 2; ++i) {
          if (column + i >= p.columns) continue;
          if (p.a_zero != nullptr) b_sums[i] = static_cast<uint32_t>(p.b_sums[b_first + column + i]);
          if (p.b_zero != nullptr)
            b_zeros[i] =
                static_cast<uint32_t>(static_cast<int>(static_cast<const B*>(p.b_zero)[(column + i) * p.b_zero_step]));
          if (p.bias != nullptr) biases[i] = static_cast<uint32_t>(p.bias[column + i]);
          if (bytes) scales[i] = p.a_scale[0] * p.b_scale[(column + i) * p.b_scale_step] / p.y_scale[0];
        }
#pragma unroll
        for (int m = 0; m < kM; ++m)
#pragma unroll
          for (int half = 0; half < 2; ++half) {
            const int row = first_row + warp_row + m * 16 + lane / 4 + half * 8;
            if (row >= p.rows) continue;
            const int64_t at_a = static_cast<int64_t>(matrix) * p.rows + row;
            uint32_t a_zero = 0, a_sum = 0;
            if (p.a_zero != nullptr)
              a_zero = static_cast<uint32_t>(static_cast<int>(static_cast<const A*>(p.a_zero)[at_a * p.a_zero_step]));
            if (p.b_zero != nullptr) a_sum = static_cast<uint32_t>(p.a_sums[at_a]);
            int results[2];
#pragma unroll
            for (int i = 0; i < 2; ++i)
              results[i] = static_cast<int>(static_cast<uint32_t>(sums[m][n][half * 2 + i]) - a_zero * b_sums[i] -
                                            b_zeros[i] * a_sum +
                                            static_cast<uint32_t>(p.summed_depth) * a_zero * b_zeros[i] + biases[i]);
            if (bytes) {
              write_bytes(p, results, scales, at_a * p.columns + column, pairs, column);
              continue;
            }
            int32_t* const y = static_cast<int32_t*>(p.y) + at_a * p.columns + column;
            if (pairs && column < p.columns) {
              *reinterpret_cast<int2*>(y) = make_int2(results[0], results[1]);
              continue;
            }
#pragma unroll
            for (int i = 0; i < 2; ++i)
              if (column + i < p.columns) y[i] = results[i];
          }
      }
    }
}

}  // namespace

}  // namespace tenon::cuda::device

#define TENON_INTEGER_KERNEL(name, A, B, rows, columns, windows)                               \
  extern "C" __global__ void __launch_bounds__(2 * columns, columns == 64 ? 3 : 2)             \
      name##_##rows##x##columns(const __grid_constant__ tenon::cuda::IntegerProductParams p) { \
    tenon::cuda::device::integer_product<A, B, rows, columns, windows>(p);                     \
  }
#define TENON_INTEGER_TILES(name, A, B, windows)     \
  TENON_INTEGER_KERNEL(name, A, B, 64, 64, windows)  \
  TENON_INTEGER_KERNEL(name, A, B, 128, 64, windows) \
  TENON_INTEGER_KERNEL(name, A, B, 128, 128, windows)
#define TENON_INTEGER_KERNELS(types, A, B)          \
  TENON_INTEGER_TILES(integer_##types, A, B, false) \
  TENON_INTEGER_TILES(integer_conv_##types, A, B, true)

TENON_INTEGER_KERNELS(u8_u8, uint8_t, uint8_t)
TENON_INTEGER_KERNELS(u8_s8, uint8_t, int8_t)
TENON_INTEGER_KERNELS(s8_u8, int8_t, uint8_t)
TENON_INTEGER_KERNELS(s8_s8, int8_t, int8_t)
