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

  // Calls body(first, base, offsets, n, is_run) for pieces that cover the elements whose coordinate on `part` is in
  // [begin, end), in rising order: elements [first, first + n) of `indices` stand for x's elements at base + `offsets`,
  // or if is_run for the n elements from base + offsets[0] on. Stops at an index out of range, the first position of
  // whose piece it leaves in `failed`.
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
        if (!integer_table().place(indices, one ? 1 : n, length_, axis_stride_, axis_ == last ? 0 : 1,
                                   offsets.data())) {
          failed.store(first + i, std::memory_order_relaxed);
          return;
        }
        body(first + i, axis_ == last ? base : base + i, offsets.data(), n,
             one || (axis_ == last && integer_table().is_run(offsets.data(), n)));
      }
      int d = last - 1;
      for (; d >= 0; --d) {
        if (++at[d] < high[d]) break;
        at[d] = low[d];
      }
      if (d < 0) return;
    }
  }
  // The error for the position that run() left, if it left one: of the first index out of range from there on.
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
class Tuples {
 public:
  Tuples(const GatherNdDesc& desc, const Shape& x);

  // Calls body(first, offsets, n) for pieces of the tuples [begin, end): tuples [first, first + n) name the slices at
  // `offsets`. Stops at an index out of range and leaves the first tuple of its piece in `failed`.
  template <typename Body>
  void each_piece(const IndexRows& rows, const void* data, int64_t begin, int64_t end, std::atomic<int64_t>& failed,
                  const Body& body) const {
    constexpr int64_t kPiece = 128;
    std::array<int64_t, kPiece * Shape::kMaxRank> room;
    std::array<int64_t, kPiece> offsets;
    for (int64_t first = begin; first < end; first += kPiece) {
      const int64_t n = std::min(kPiece, end - first);
      if (!find(rows.show(data, first * length_, n * length_, room.data()), n, offsets.data())) {
        failed.store(first, std::memory_order_relaxed);
        return;
      }
      body(first, offsets.data(), n);
    }
  }
  // The error of the first tuple out of range from `failed` on, which each_piece() left; OK for -1.
  Status status(const IndexRows& rows, const void* data, int64_t tuples, int64_t failed) const;

 private:
  // Of n tuples. False: an index is out of range.
  bool find(const int64_t* indices, int64_t n, int64_t* offsets) const;

  int length_ = 0;  // of a tuple
  Shape dims_;      // x's axes that a tuple indexes
  Strides strides_{};
};

}  // namespace tenon::cpu::ref
