// Indices as data: read as int64 whatever their type, checked against an axis.
#pragma once

#include <algorithm>
#include <atomic>

#include "ep/cpu/ops/reference_kernel.h"
#include "ep/cpu/simd/integers.h"
#include "ops/gather.h"

namespace tenon::cpu::ref {

using IndexReader = int64_t (*)(const void* indices, int64_t i);
// Floats are truncated (OneHot allows them).
Result<IndexReader> index_reader(const KernelNode& node, size_t input);

// Counts from the end when negative; the error names the index and the axis' length.
inline Result<int64_t> wrap_index(int64_t index, int64_t length) {
  if (index < -length || index >= length) {
    return out_of_range("Index {} is outside [{}, {}).", index, -length, length);
  }
  return index < 0 ? index + length : index;
}

// Many indices at once: [first, first + count) of `indices`, as they are.
struct IndexRows {
  IndexReader read = nullptr;
  DataType type = DataType::kInt64;

  void load(const void* indices, int64_t first, int64_t count, int64_t* out) const;
  // The same, where they lie if they are int64, else in `room`.
  const int64_t* show(const void* indices, int64_t first, int64_t count, int64_t* room) const {
    if (type == DataType::kInt64) return static_cast<const int64_t*>(indices) + first;
    load(indices, first, count, room);
    return room;
  }
};
Result<IndexRows> index_rows(const KernelNode& node, size_t input);

// Elements by index along an axis: GatherElements and ScatterElements. Element i of `indices` stands for x's element
// with i's coordinates, but for the index on the axis.
class ElementBox {
 public:
  static constexpr int64_t kPiece = 256;
  ElementBox(const IndexRows& rows, const Shape& indices, const Shape& x, int axis);

  // Coordinates along `part` split the elements; those with different coordinates on it never name the same element of
  // x, unless it is the axis itself. -1: there is no such dimension.
  int longest_part(bool axis_too) const;
  int64_t part_size(int part) const { return part < 0 ? 1 : indices_[part]; }
  // Coordinates along `part` that are worth a thread's while.
  int64_t grain(int part) const;

  // Calls body(first, offsets, n, is_run) for pieces that cover the elements whose coordinate on `part` is in [begin,
  // end), in rising order: elements [first, first + n) of `indices` stand for x's elements at `offsets`, or if is_run
  // for the n elements from offsets[0] on. Stops at an index out of range, whose position it leaves in `failed`.
  template <typename Body>
  void run(const void* data, int part, int64_t begin, int64_t end, std::atomic<int64_t>& failed,
           const Body& body) const {
    const int rank = indices_.rank(), last = rank - 1;
    if (count_ == 0 || begin >= end) return;
    std::array<int64_t, Shape::kMaxRank> low{}, high{}, at{};
    for (int d = 0; d < rank; ++d) {
      low[d] = d == part ? begin : 0;
      high[d] = d == part ? end : indices_[d];
    }
    at = low;
    std::array<int64_t, kPiece> offsets;
    while (true) {
      int64_t first = 0, base = 0;
      for (int d = 0; d < rank; ++d) {
        first += at[d] * index_strides_[d];
        if (d != axis_) base += at[d] * x_strides_[d];
      }
      const int64_t row = rank == 0 ? 1 : high[last] - low[last];
      for (int64_t i = 0; i < row; i += kPiece) {
        const int64_t n = std::min(kPiece, row - i);
        const int64_t* const indices = rows_.show(data, first + i, n, offsets.data());
        // Rows whose indices are all one, as graph networks make them.
        const bool one = axis_ != last && integer_table().is_one_value(indices, n);
        const int64_t read = one ? 1 : n;
        std::copy_n(indices, indices == offsets.data() ? 0 : read, offsets.data());
        if (!integer_table().wrap(offsets.data(), read, length_)) {
          const auto outside = [&](int64_t index) { return index < 0 || index >= length_; };
          failed.store(first + i + (std::find_if(offsets.begin(), offsets.begin() + n, outside) - offsets.begin()),
                       std::memory_order_relaxed);
          return;
        }
        if (one) {
          offsets[0] = offsets[0] * axis_stride_ + base + i;
        } else if (axis_ == last) {  // whose stride is 1
          for (int64_t j = 0; j < n; ++j) offsets[j] += base;
        } else {
          integer_table().wide[static_cast<int>(WideOp::kMul)](offsets.data(), 1, &axis_stride_, 0, offsets.data(), n);
          for (int64_t j = 0; j < n; ++j) offsets[j] += base + i + j;
        }
        body(first + i, offsets.data(), n, one || (axis_ == last && integer_table().is_run(offsets.data(), n)));
      }
      int d = last - 1;
      for (; d >= 0; --d) {
        if (++at[d] < high[d]) break;
        at[d] = low[d];
      }
      if (d < 0) return;
    }
  }
  // The error for the position that run() left, if it left one.
  Status status(const void* data, int64_t failed) const;

 private:
  IndexRows rows_;
  Shape indices_;
  int axis_;
  int64_t length_, axis_stride_, count_;
  Strides index_strides_, x_strides_;
};

// The whole of a parallel gather or scatter; `axis_too`: elements are only read, so that any dimension may be split.
template <typename Body>
Status run_elements(const ElementBox& box, const void* data, bool axis_too, ThreadPool& pool, const Body& body) {
  const int part = box.longest_part(axis_too);
  std::atomic<int64_t> failed{-1};
  pool.parallel_for(box.part_size(part), box.grain(part),
                    [&](int64_t begin, int64_t end) { box.run(data, part, begin, end, failed, body); });
  return box.status(data, failed.load(std::memory_order_relaxed));
}

// Reads tuples (GatherNdDesc): the element of a batch of x where the slice begins that a tuple names.
struct Tuples {
  int length = 0;  // of a tuple
  Shape dims;      // x's axes that a tuple indexes
  Strides strides{};

  Result<int64_t> offset(IndexReader read, const void* data, int64_t tuple) const {
    int64_t sum = 0;
    for (int d = 0; d < length; ++d) {
      Result<int64_t> index = wrap_index(read(data, tuple * length + d), dims[d]);
      if (!index.ok()) return index;
      sum += *index * strides[d];
    }
    return sum;
  }
  // The same without a message: -1 where an index is out of range.
  int64_t find(IndexReader read, const void* data, int64_t tuple) const {
    int64_t sum = 0;
    for (int d = 0; d < length; ++d) {
      int64_t index = read(data, tuple * length + d);
      if (index < 0) index += dims[d];
      if (index < 0 || index >= dims[d]) return -1;
      sum += index * strides[d];
    }
    return sum;
  }
};
Tuples tuples_of(const GatherNdDesc& desc, const Shape& x);

}  // namespace tenon::cpu::ref
