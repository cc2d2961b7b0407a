#include "ep/cpu/ops/elementwise/broadcast.h"

#include <cstring>

namespace tenon::cpu::nn {

Result<BroadcastWalk> BroadcastWalk::create(const Shape& output, std::initializer_list<const Shape*> operands) {
  const int rank = output.rank();
  std::array<std::array<int64_t, Shape::kMaxRank>, kMaxOperands> full{};
  size_t o = 0;
  for (const Shape* shape : operands) {
    TENON_INVALID_IF(shape->rank() > rank, "Shape {} does not broadcast to {}.", shape->to_string(),
                     output.to_string());
    int64_t stride = 1;
    for (int i = shape->rank() - 1; i >= 0; --i) {
      const int axis = rank - shape->rank() + i;
      const int64_t dim = (*shape)[i];
      TENON_INVALID_IF(dim != 1 && dim != output[axis], "Shape {} does not broadcast to {}.", shape->to_string(),
                       output.to_string());
      full[o][axis] = dim == 1 ? 0 : stride;
      stride *= dim;
    }
    ++o;
  }
  // From the last dimension: a dimension joins the one behind it where all strides continue.
  BroadcastWalk walk;
  walk.operands_ = operands.size();
  std::array<int64_t, Shape::kMaxRank> dims{};
  std::array<std::array<int64_t, Shape::kMaxRank>, kMaxOperands> strides{};
  size_t kept = 0;  // reversed: [0] is the last dimension
  for (int axis = rank - 1; axis >= 0; --axis) {
    if (output[axis] == 1) continue;
    bool joins = kept > 0;
    for (size_t i = 0; i < kMaxOperands && joins; ++i) joins = full[i][axis] == strides[i][kept - 1] * dims[kept - 1];
    if (joins) {
      dims[kept - 1] *= output[axis];
      continue;
    }
    dims[kept] = output[axis];
    for (size_t i = 0; i < kMaxOperands; ++i) strides[i][kept] = full[i][axis];
    ++kept;
  }
  if (kept == 0) return walk;
  walk.rank_ = static_cast<int>(kept);
  walk.row_ = dims[0];
  for (size_t i = 0; i < kept; ++i) {
    walk.dims_[kept - 1 - i] = dims[i];
    if (i > 0) walk.outer_ *= dims[i];
    for (size_t k = 0; k < kMaxOperands; ++k) walk.strides_[k][kept - 1 - i] = strides[k][i];
  }
  return walk;
}

BroadcastWalk::Kind BroadcastWalk::kind(size_t operand) const {
  bool whole = true, one_row = strides_[operand][rank_ - 1] == 1;
  int64_t stride = 1;
  for (int d = rank_ - 1; d >= 0; stride *= dims_[d--]) {
    whole = whole && strides_[operand][d] == stride;
    one_row = one_row && (d == rank_ - 1 || strides_[operand][d] == 0);
  }
  return whole ? Kind::kWhole : one_row ? Kind::kOneRow : Kind::kGathered;
}

bool BroadcastWalk::has_short_rows(int64_t gathered) const {
  if (rank_ == 1 || row_ > kShortRow) return false;
  for (size_t o = 0; o < operands_ && row_ > gathered; ++o)
    if (kind(o) == Kind::kGathered) return false;
  return true;
}

SpreadRows::SpreadRows(const BroadcastWalk& walk, std::initializer_list<Operand> operands, int64_t begin, int64_t end)
    : walk_(walk), at_(begin), end_(end) {
  std::copy(operands.begin(), operands.end(), operands_.begin());
  for (size_t o = 0; o < walk.operands_; ++o) {
    kinds_[o] = walk.kind(o);
    if (kinds_[o] != Kind::kOneRow) continue;
    const size_t row = static_cast<size_t>(walk.row_) * operands_[o].bytes;
    const size_t held = static_cast<size_t>(std::min(kPiece, end - begin)) * operands_[o].bytes + row;
    std::memcpy(buffers_[o], operands_[o].data, row);
    for (size_t i = row; i < held; i += row) std::memcpy(buffers_[o] + i, buffers_[o], std::min(row, held - i));
  }
}

template <typename T>
void SpreadRows::gather(int operand) {
  constexpr int64_t kTogether = 8;  // the buffer has room for more than is needed
  const auto& strides = walk_.strides_[operand];
  const auto& dims = walk_.dims_;
  const int64_t length = walk_.row_, one = strides[walk_.rank_ - 1] == 0 ? 0 : 1;
  const auto* row = static_cast<const T*>(operands_[operand].data);
  std::array<int64_t, Shape::kMaxRank> index{};
  int64_t rest = at_ / length;
  for (int d = walk_.rank_ - 2; d >= 0; rest /= dims[d--]) {
    index[d] = rest % dims[d];
    row += index[d] * strides[d];
  }
  T* to = reinterpret_cast<T*>(buffers_[operand]);
  const T* const end = to + count_;
  for (int64_t skip = at_ % length; to < end; skip = 0) {
    const T* const from = row + skip * one;
    const int64_t n = std::min<int64_t>(end - to, length - skip);
    if (n < kTogether) {
      for (int64_t i = 0; i < n; ++i) {
        asm("");  // without it, compilers make a call of memcpy of the loop
        to[i] = from[i * one];
      }
    } else if (one == 0) {
      for (int64_t i = 0; i < n; i += kTogether) std::fill_n(to + i, kTogether, *from);
    } else {
      std::memcpy(to, from, static_cast<size_t>(n) * sizeof(T));
    }
    to += n;
    for (int d = walk_.rank_ - 2; d >= 0; --d) {
      row += strides[d];
      if (++index[d] < dims[d]) break;
      row -= dims[d] * strides[d];
      index[d] = 0;
    }
  }
}

bool SpreadRows::next() {
  at_ += count_;
  count_ = std::min(kPiece, end_ - at_);
  if (count_ <= 0) return false;
  for (size_t o = 0; o < walk_.operands_; ++o) {
    const size_t bytes = operands_[o].bytes;
    if (kinds_[o] == Kind::kWhole) {
      elements_[o] = static_cast<const std::byte*>(operands_[o].data) + static_cast<size_t>(at_) * bytes;
      continue;
    }
    elements_[o] = buffers_[o];
    if (kinds_[o] == Kind::kOneRow) {
      elements_[o] = buffers_[o] + static_cast<size_t>(at_ % walk_.row_) * bytes;
    } else if (bytes == 1) {
      gather<uint8_t>(static_cast<int>(o));
    } else if (bytes == 2) {
      gather<uint16_t>(static_cast<int>(o));
    } else if (bytes == 4) {
      gather<uint32_t>(static_cast<int>(o));
    } else {
      gather<uint64_t>(static_cast<int>(o));
    }
  }
  return true;
}

}  // namespace tenon::cpu::nn
