#include "ep/cpu/ops/elementwise/broadcast.h"

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

}  // namespace tenon::cpu::nn
