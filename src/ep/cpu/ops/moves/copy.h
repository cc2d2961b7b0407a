// Copies a box of elements between two strided tensors, for Transpose, Slice, Split, Concat and
// Expand.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "base/status.h"
#include "tenon/thread_pool.h"
#include "tenon/types.h"

namespace tenon::cpu::nn {

// Strides and offsets count elements. A stride of 0 in `src` repeats, a negative one walks backwards.
class StridedCopy {
 public:
  StridedCopy() = default;
  // Elements of 1, 2, 4, 8 or 16 bytes. Every address that the strides reach must be inside its tensor.
  StridedCopy(size_t element_bytes, std::span<const int64_t> dims, std::span<const int64_t> src_strides,
              std::span<const int64_t> dst_strides, int64_t src_offset, int64_t dst_offset);

  void run(const std::byte* src, std::byte* dst, ThreadPool& pool) const;

 private:
  enum class Inner : uint8_t { kBytes, kRepeat, kTranspose, kStrided };

  void run_outer(const std::byte* src, std::byte* dst, int64_t begin, int64_t end) const;
  void run_inner(const std::byte* src, std::byte* dst) const;

  size_t element_bytes_ = 1;
  int64_t src_offset_ = 0, dst_offset_ = 0;
  // The outer dimensions, in the order of dst; strides in bytes.
  int outer_rank_ = 0;
  int64_t outer_count_ = 1;
  std::array<int64_t, Shape::kMaxRank> dims_{}, src_{}, dst_{};
  // The inner one, or two for a transpose: dst[j * inner_dst_ + i] = src[i * inner_src_ + j], strides in elements.
  Inner inner_ = Inner::kBytes;
  int64_t inner_dim_ = 1, inner_src_ = 1, inner_dst_ = 1;
  int64_t columns_ = 1;  // kTranspose
};

// dst[j * dst_stride + i] = src[i * src_stride + j] for i < rows, j < columns, on this thread. Elements of 1, 2, 4, 8
// or 16 bytes, by their bits.
void transpose(size_t element_bytes, const void* src, int64_t src_stride, void* dst, int64_t dst_stride, int64_t rows,
               int64_t columns);

// Row-major strides of a dense tensor.
std::array<int64_t, Shape::kMaxRank> dense_strides(const Shape& shape);
// OK for types whose elements are 1, 2, 4, 8 or 16 bytes.
Status check_copyable(DataType type);

}  // namespace tenon::cpu::nn
