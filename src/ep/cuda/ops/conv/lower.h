// Shared by the operator families that are lowered to a ConvOp.
#pragma once

#include <array>
#include <functional>
#include <initializer_list>
#include <string>
#include <vector>

#include "ep/cuda/compute/lowering.h"
#include "ep/cuda/ops/conv/op.h"
#include "ep/cuda/ops/conv/plain_conv_params.h"
#include "ops/conv.h"

namespace tenon::cuda {

// Of a convolution of one or two spatial dimensions; one is two with a height of 1.
struct ConvWindow {
  std::array<int64_t, 2> kernel{1, 1}, stride{1, 1}, dilation{1, 1}, pad{0, 0};
};
ConvWindow conv_window(const ConvDesc& conv);

// Convolutions of any number of spatial dimensions.
Status lower_plain_conv(Lowering& to, const Node& node, const ConvDesc& conv);

// A depthwise convolution with channels first, in strips of rows (depthwise_strips.cuh).
class DepthwiseStrips {
 public:
  DepthwiseStrips(const Shape& x, const Shape& y, const ConvWindow& window);
  // Whether x, none of it empty, with weights w can be such.
  static bool serve(const Shape& x, const Shape& w, int64_t group);
  std::vector<int64_t> dims() const;
  // Without an epilogue.
  DepthwiseParams params() const;
  // The template arguments of the strip: its rows, and the window's sizes that unroll loops.
  std::string arguments() const;

 private:
  static int64_t height(const Shape& shape) { return shape.rank() == 4 ? shape[2] : 1; }
  int64_t rows_read() const {
    return (rows_ - 1) * window_.stride[0] + (window_.kernel[0] - 1) * window_.dilation[0] + 1;
  }
  Shape x_, y_;
  ConvWindow window_;
  int64_t rows_ = 1;
};

// Whether all who read the value take it with channels first; elementwise nodes hand on what they get.
bool wants_plain(const Lowering& to, ValueId id);

// Lowers convolutions that gain by staying with channels first. False, and nothing done, for the others.
Result<bool> lower_conv_channels_first(Lowering& to, const Node& node, const ConvDesc& conv);

// The kernels count elements of the input, pixels and depths in 32 bits.
Status check_conv_sizes(const Lowering& to, const Node& node, std::initializer_list<int64_t> sizes);

// Weights in the order of a kernel: constants are packed once on the host, others by a kernel each time. To that kernel
// the element i0, i1, ... of `shape` is the one at sum(i * strides), and 0 where some i is not below its limit.
struct WeightPacking {
  std::string format;
  Shape shape;
  std::function<void(const Constant&, std::byte*)> pack;
  std::vector<int64_t> strides, limits;
  bool tf32 = false;  // to be rounded
};
Result<TensorId> packed_weights(Lowering& to, const Node& node, ValueId id, DataType type, WeightPacking packing);

// The input with zeros as further channels, so that a pixel's channels fill whole vectors.
Result<TensorId> pad_channels(Lowering& to, const Node& node, ValueId id, int64_t channels);

// Zeros, for cuDNN, which wants a bias.
Result<TensorId> no_bias(Lowering& to, int64_t channels, DataType type);

// A bias in float32 or in the type of the product, `repeat` times.
Result<TensorId> bias_as(Lowering& to, const Node& node, ValueId id, DataType type, int64_t repeat = 1);

// The rest of a convolution whose input and weights are there: bias, residual and output, and the weights split where
// that serves. `pack_floats` packs constant weights as float32, in the order of those that are there.
Status finish_conv(Lowering& to, const Node& node, const ConvParams& params, const Epilogue& epilogue,
                   ConvTensors tensors, const std::function<void(const Constant&, std::byte*)>& pack_floats);

}  // namespace tenon::cuda
