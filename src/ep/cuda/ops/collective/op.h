// An exchange of one tensor among the ranks of a sharded model.
#pragma once

#include <string>

#include "ep/cuda/compute/device_op.h"
#include "ep/cuda/driver/nccl.h"
#include "ops/collective.h"

namespace tenon::cuda {

// What NCCL exchanges elements of the type as.
Result<NcclType> nccl_type(DataType type);

class CollectiveOp final : public DeviceOp {
 public:
  // `count`: elements that a rank gives to all others; of an all-to-all to each of them. An all-gather writes the
  // ranks' tensors one after the other.
  CollectiveOp(std::string label, CollectiveDesc::Kind kind, int64_t ranks, DataType type, int64_t count, TensorId x,
               TensorId y)
      : DeviceOp(std::move(label), {x}, {y}), kind_(kind), ranks_(ranks), type_(type), count_(count) {}
  std::string description(const Program& program) const override;
  Status prepare(const PrepareContext&) override { return nccl_type(type_).status(); }
  // Does nothing without a communicator.
  Status queue(const QueueContext& context) const override;
  bool may_overwrite(size_t) const override { return kind_ == CollectiveDesc::Kind::kAllReduce; }
  bool needs_ranks() const override { return true; }

 private:
  const CollectiveDesc::Kind kind_;
  const int64_t ranks_;
  const DataType type_;
  const int64_t count_;
};

}  // namespace tenon::cuda
