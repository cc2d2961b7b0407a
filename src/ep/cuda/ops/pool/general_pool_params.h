// The parameters of general_pool.cuh, as host and device read them.
#pragma once

#include "ep/cuda/templates/window_params.h"

namespace tenon::cuda {

// Norms of the orders 1 and 2 need no powers.
enum class PoolMode : int32_t { kMax, kAverage, kNorm1, kNorm2, kNorm };

struct GeneralPoolParams {
  MapParams map;  // of y: image, channel, axes
  WindowParams window;
  int64_t channels = 0;
  double order = 2, inverse_order = 0.5;
  int32_t count_include_pad = 0;
  int32_t column_major = 0;  // indices count down the columns first
};

}  // namespace tenon::cuda
