// The walk through a matrix that is transposed by small tiles.
#pragma once

#include <cstdint>

namespace tenon::cpu {

// dst[j * dst_stride + i] = src[i * src_stride + j] for i < rows, j < columns. tile(src, dst) does so for tile_rows
// rows and tile_columns columns, both powers of two and at most 16 and 8. Inlined where it is used, so that each
// instruction set has its own.
template <typename T, typename Tile>
inline __attribute__((always_inline)) void transpose_blocks(const T* src, int64_t src_stride, T* dst,
                                                            int64_t dst_stride, int64_t rows, int64_t columns,
                                                            int64_t tile_rows, int64_t tile_columns, const Tile& tile) {
  if (rows < tile_rows || columns < tile_columns) {
    for (int64_t j = 0; j < columns; ++j)
      for (int64_t i = 0; i < rows; ++i) dst[j * dst_stride + i] = src[i * src_stride + j];
    return;
  }
  const auto least = [](int64_t a, int64_t b) { return a < b ? a : b; };
  // Long runs of few rows of dst: each is a stream that the machine fetches ahead. Rows that are a multiple of 4 KiB
  // apart share a set of the L1 cache, which has room for eight of them.
  constexpr int64_t kRun = 256, kLine = 64 / static_cast<int64_t>(sizeof(T)), kSetBytes = 4096;
  const int64_t step = tile_rows > kLine ? tile_rows : kLine;
  const int64_t width = dst_stride * static_cast<int64_t>(sizeof(T)) % kSetBytes == 0 ? 8 : 16;
  for (int64_t i0 = 0; i0 < rows; i0 += kRun) {
    const int64_t end = least(i0 + kRun, rows);
    for (int64_t j0 = 0; j0 < columns; j0 += width) {
      const int64_t j1 = least(j0 + width, columns);
      for (int64_t i = i0; i < end; i += step) {
        const int64_t i1 = least(i + step, end);
        for (int64_t j = j0; j < j1; j += tile_columns) {
          // The last tiles end with the matrix, and overlap those before.
          const int64_t column = least(j, columns - tile_columns);
          for (int64_t k = i; k < i1; k += tile_rows) {
            const int64_t row = least(k, rows - tile_rows);
            tile(src + row * src_stride + column, dst + column * dst_stride + row);
          }
        }
      }
    }
  }
}

}  // namespace tenon::cpu
