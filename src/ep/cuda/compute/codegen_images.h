// Writes CUDA C++ that resizes images and that adds up what transposed convolutions spread out.
#pragma once

#include <tenon/types.h>

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "base/status.h"
#include "ep/cuda/compute/codegen.h"

namespace tenon::cuda {

// Parameters: the input, then indices (int32) and weights (float32) of each dimension with `width` > 0, the output.
struct GeneratedResize {
  std::vector<int64_t> dims;  // of the output
  std::vector<int64_t> strides, out_strides;
  std::vector<int64_t> widths;  // taps of each dimension; 0: its own coordinate
  DataType type = DataType::kFloat;
  bool copies = false;   // every element is one of the input
  bool outside = false;  // an index below 0 makes the element `fill`
  bool wide = false;     // the input has more elements than 32 bits address
  std::string fill = "0";
};

// y = f(bias[channel] + the sum over all places of the window that meet it). Parameters: the products, the bias where
// there is one, the residual where there is one, the output.
struct GeneratedWindowSum {
  struct Axis {
    int64_t in = 1, out = 1, kernel = 1, stride = 1, dilation = 1, pad = 0;
    int64_t in_stride = 0, out_stride = 0, tap_stride = 0, residual_stride = 0;
  };
  DataType type = DataType::kFloat;
  int64_t images = 1, groups = 1, channels = 1;                    // channels of a group
  int64_t image_stride = 0, group_stride = 0, channel_stride = 0;  // of the products
  int64_t out_image_stride = 0, out_channel_stride = 0;            // channels of groups lie together
  int64_t residual_image_stride = 0, residual_channel_stride = 0;
  std::vector<Axis> axes;
  bool bias = false, residual = false, residual_after = false;
  std::string activation = "$0";
};

Result<GeneratedKernel> generate_resize(const GeneratedResize& kernel);
Result<GeneratedKernel> generate_window_sum(const GeneratedWindowSum& kernel);

}  // namespace tenon::cuda
