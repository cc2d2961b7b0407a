// MaxPool (1), AveragePool (1) and LpPool (1), and their global forms.
#pragma once

#include <cstdint>
#include <span>

#include "graph/graph.h"
#include "ops/window.h"

namespace tenon {

// A pool over X [batch, channels, in...]. The window of a global pool is the whole image.
struct PoolDesc {
  enum class Kind : uint8_t { kMax, kAverage, kLp };
  Kind kind = Kind::kMax;
  bool global = false;
  bool count_include_pad = false;  // AveragePool: padding is divided by too
  bool column_major = false;       // MaxPool: the indices count down the columns first (storage_order 1)
  double p = 2;                    // LpPool: the order of the norm, 1 or more
  int64_t batch = 1, channels = 0;
  Window window;

  int spatial() const { return window.rank(); }
  const WindowAxis& axis(int i) const { return window.axes[i]; }
  Shape output() const;
};

// Reads a pool from its node and the shape of X, which may hold kUnknownSize: then so does the description.
// Errors: a rank below 3 or another than kernel_shape's, a pad as large as its window (no element would be there to
// take; ONNX Runtime refuses it too), a norm of an order below 1, those of read_window and slide.
Result<PoolDesc> read_pool(const Node& node, std::span<const int64_t> x);
inline Result<PoolDesc> read_pool(const Node& node, const Shape& x) { return read_pool(node, x.dims()); }

}  // namespace tenon
