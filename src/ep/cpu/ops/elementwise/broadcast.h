// Walks the elements of an output to which up to three operands broadcast, in rows that are as long as can be.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
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

  // Rows so short that it pays to bring many of them together (SpreadRows): up to `gathered` elements where an operand
  // is neither the whole output nor one row for all.
  bool has_short_rows(int64_t gathered) const;

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
  friend class SpreadRows;
  // Has an operand every element of the output, one row of it for all, or anything else?
  enum class Kind : uint8_t { kWhole, kOneRow, kGathered };
  Kind kind(size_t operand) const;
  static constexpr int64_t kShortRow = 64;

  int rank_ = 1;  // at least 1
  size_t operands_ = 0;
  int64_t outer_ = 1, row_ = 1;
  std::array<int64_t, Shape::kMaxRank> dims_{1};
  std::array<std::array<int64_t, Shape::kMaxRank>, kMaxOperands> strides_{};
};

// Pieces of many short rows that cover elements [begin, end) of an output, where the elements of each operand lie one
// behind another as the output has them: where they are, or copies of them.
//   for (SpreadRows rows(walk, {{a, 4}, {b, 4}}, begin, end); rows.next();) ...
class SpreadRows {
 public:
  struct Operand {
    const void* data = nullptr;
    size_t bytes = 0;  // of an element: 1, 2, 4 or 8
  };
  SpreadRows(const BroadcastWalk& walk, std::initializer_list<Operand> operands, int64_t begin, int64_t end);

  bool next();
  // Of the piece: where it begins in the output, and its elements.
  int64_t at() const { return at_; }
  int64_t count() const { return count_; }
  template <typename T>
  const T* elements(int operand) const {
    return static_cast<const T*>(elements_[operand]);
  }

 private:
  using Kind = BroadcastWalk::Kind;
  static constexpr int64_t kPiece = 512;
  static constexpr size_t kMaxBytes = 8;

  template <typename T>
  void gather(int operand);

  const BroadcastWalk& walk_;
  int64_t at_, end_, count_ = 0;
  std::array<Operand, BroadcastWalk::kMaxOperands> operands_{};
  std::array<Kind, BroadcastWalk::kMaxOperands> kinds_{};
  std::array<const void*, BroadcastWalk::kMaxOperands> elements_{};
  alignas(64) std::byte buffers_[BroadcastWalk::kMaxOperands][(kPiece + BroadcastWalk::kShortRow) * kMaxBytes];
};

}  // namespace tenon::cpu::nn
