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
