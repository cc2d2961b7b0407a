// A Resize whose scales are known before the run, along up to three neighbouring axes: the tensor as
// [outer][planes][rows][columns][inner].
#pragma once

#include <vector>

#include "ep/api/kernel.h"
#include "ops/resize.h"

namespace tenon::cpu {

// All axes with their scales. Refuses what only the run knows: scales, a roi, and sizes of which the plan has no
// output.
Result<std::vector<ResizeAxis>> known_resize_axes(const KernelNode& node, const ResizeDesc& resize);

struct ResizeGrid {
  int64_t outer = 1;
  ResizeTaps planes, rows, columns;
  int64_t inner = 1;

  bool same_rows() const;  // every output row is the input row at its place
  bool same_columns() const;
};

// Of a node whose input and output have the same layout. Blocks of 8 channels are an inner size of 8. At most `most`
// axes may change; the planes are one with fewer than three.
Result<ResizeGrid> resize_grid(const KernelNode& node, int most = 2);

}  // namespace tenon::cpu
