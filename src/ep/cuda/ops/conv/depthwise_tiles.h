// Depthwise convolutions with channels last, in tiles of the image (depthwise_tiles.cuh).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "ep/cuda/compute/kernel_template.h"
#include "ep/cuda/compute/lowering.h"
#include "ep/cuda/ops/conv/depthwise_tiles_params.h"
#include "ep/cuda/ops/conv/op.h"

namespace tenon::cuda {

class DepthwiseTiles {
 public:
  // The tile for a convolution of `params`, whose addresses, epilogue and depth do not matter. None for windows of one
  // tap, dilations, strides above 2, an odd number of channels, and windows that shared memory has no room for. Not for
  // 3x3 windows with the same stride both ways either: direct.cu holds those in registers.
  static std::optional<DepthwiseTiles> choose(DataType type, const ConvParams& params);
  // All tiles that could serve, the one that takes the least time by an estimate first; they give the same bits. For
  // tests, and for whoever tunes the choice.
  static std::vector<DepthwiseTiles> all(DataType type, const ConvParams& params);

  int64_t blocks() const;
  // `constant`: weights and bias are no other kernel's results.
  TemplateKernel kernel(const Epilogue& epilogue, bool constant) const;
  // The outputs that a thread makes, and those of a block: "4 of 8x4", "4 of 8x4 in a loop".
  std::string text() const;

 private:
  // A thread makes `outputs` of a row, a block `across` times as many in `down` rows. The loop over the window's rows
  // may be unrolled.
  struct Shape {
    int outputs = 1, across = 1, down = 1;
    bool unrolled = true;
  };
  // The sizes along the rows and along the columns.
  struct Sizes {
    int64_t in = 1, out = 1, kernel = 1, stride = 1, pad = 0, x_step = 0, y_step = 0;
    int64_t read(int64_t outputs) const { return (outputs - 1) * stride + kernel; }
  };
  DepthwiseTiles(DataType type, const ConvParams& params);
  bool fits() const;
  bool is_usual() const;
  int64_t pixels() const;  // that a block reads
  int64_t threads() const { return int64_t{shape_.across} * shape_.down * kTileLanes; }
  int64_t chunk() const;  // channels that are copied at once
  int64_t copies(int64_t items) const;
  double estimate() const;
  DepthwiseTilesParams params() const;

  DataType type_;
  int64_t images_ = 0, channels_ = 0, x_image_ = 0, y_image_ = 0;
  Sizes h_, w_;
  Shape shape_;
  double cycles_ = 0;
};

// Adds the kernel; `tensors` hold x, w, y, and bias and residual where there are such.
Status add_depthwise_tiles(Lowering& to, const Node& node, const DepthwiseTiles& tiles, const ConvParams& params,
                           const Epilogue& epilogue, const ConvTensors& tensors);

}  // namespace tenon::cuda
