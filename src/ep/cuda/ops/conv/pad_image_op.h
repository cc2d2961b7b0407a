// The first convolution of a network reads images of three channels.
#pragma once

#include "ep/cuda/compute/device_op.h"
#include "ep/cuda/compute/kernel_params.h"

namespace tenon::cuda {

// Plain images of a few channels to channels last, with zeros as further channels.
class PadImageOp final : public DeviceOp {
 public:
  PadImageOp(std::string label, DataType type, const Shape& x_shape, int32_t padded, TensorId x, TensorId y);
  int32_t padded() const { return padded_; }
  std::string description(const Program& program) const override;
  Status prepare(const PrepareContext& context) override;
  Status queue(const QueueContext& context) const override;

 private:
  const DataType type_;
  const int32_t padded_;
  ImageParams params_;
  CUfunction function_ = nullptr;
};

}  // namespace tenon::cuda
