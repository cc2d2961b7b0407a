// Walks the elements of an output to which up to three operands broadcast, in rows that are as long as can be.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>

#include "base/status.h"
#include "tenon/types.h"

namespace tenon::cpu::nn {

// Dimensions are merged while every operand allows it. In the last one, each stride is 0 or 1.
class BroadcastWalk {
 public:
  static constexpr int kMaxOperands = 3;

  // Errors: an operand that does not broadcast to `output`.
  static Result<BroadcastWalk> create(const Shape& output, std::initializer_list<const Shape*> operands);

  int64_t count() const { return outer_ * row_; }
  int64_t row() const { return row_; }
  int64_t row_stride(int operand) const { return strides_[operand][rank_ - 1]; }

  // The operand of two that is one short row for all rows of the other, which has every element of the output; -1 where
  // there is none.
  int repeated() const {
    constexpr int64_t kShort = 96;
    if (rank_ != 2 || row_ >= kShort) return -1;
    for (int o : {0, 1}) {
      const auto &one = strides_[o], &other = strides_[1 - o];
      if (one[0] == 0 && one[1] == 1 && other[0] == row_ && other[1] == 1) return o;
    }
    return -1;
  }
  // Calls body(offset, row, n) for pieces of many rows that cover elements [begin, end): row[0, n) are the elements of
  // the repeated operand, which `from` has once.
  template <typename T, typename Body>
  void repeated_pieces(int64_t begin, int64_t end, const T* from, const Body& body) const {
    constexpr int64_t kMost = 1024;
    T rows[2 * kMost];
    const int64_t held = std::min(kMost, end - begin) + row_;
    std::copy_n(from, row_, rows);
    for (int64_t i = row_; i < held; ++i) rows[i] = rows[i - row_];
    for (int64_t at = begin; at < end; at += kMost) body(at, rows + at % row_, std::min(kMost, end - at));
  }

  // Calls body(output offset, operand offsets, n) for pieces of rows that cover elements [begin, end).
  template <typename Body>
  void pieces(int64_t begin, int64_t end, const Body& body) const {
    if (begin >= end) return;
    std::array<int64_t, Shape::kMaxRank> index{};
    std::array<int64_t, kMaxOperands> offset{};
    int64_t rest = begin / row_;
    for (int d = rank_ - 2; d >= 0; --d) {
      index[d] = rest % dims_[d];
      rest /= dims_[d];
      for (size_t o = 0; o < kMaxOperands; ++o) offset[o] += index[d] * strides_[o][d];
    }
    int64_t skip = begin % row_;
    while (begin < end) {
      const int64_t n = std::min(end - begin, row_ - skip);
      std::array<int64_t, kMaxOperands> at = offset;
      for (size_t o = 0; o < kMaxOperands; ++o) at[o] += skip * strides_[o][rank_ - 1];
      body(begin, at, n);
      begin += n;
      skip = 0;
      for (int d = rank_ - 2; d >= 0; --d) {
        for (size_t o = 0; o < kMaxOperands; ++o) offset[o] += strides_[o][d];
        if (++index[d] < dims_[d]) break;
        for (size_t o = 0; o < kMaxOperands; ++o) offset[o] -= dims_[d] * strides_[o][d];
        index[d] = 0;
      }
    }
  }

 private:
  int rank_ = 1;  // at least 1
  int64_t outer_ = 1, row_ = 1;
  std::array<int64_t, Shape::kMaxRank> dims_{1};
  std::array<std::array<int64_t, Shape::kMaxRank>, kMaxOperands> strides_{};
};

}  // namespace tenon::cpu::nn
