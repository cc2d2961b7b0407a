// Operators that lay elements into an image: Col2Im (18), MaxUnpool (9) and CenterCropPad (18).
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "graph/graph.h"
#include "ops/window.h"

namespace tenon {

// Col2Im of [batch, channels * kernel, positions]: adds each column back to where a window took it from.
struct Col2ImDesc {
  int64_t batch = 0, channels = 0;
  Window window;  // `in` is the image's size, `out` the number of positions

  Shape output() const;
};
// Errors: sizes below 1, a number of columns or of positions that does not fit the image and its windows.
Result<Col2ImDesc> read_col2im(const Node& node, const Shape& x, std::span<const int64_t> image,
                               std::span<const int64_t> block);

// MaxUnpool: puts the elements of X where the indices say, in an image of the shape `whole`, zeros elsewhere; that
// image stands at the beginning of Y, which output_shape may make larger.
struct MaxUnpoolDesc {
  Shape whole, output;
};
// Errors: indices of another shape than X, a kernel_shape that does not fit, an output smaller than the image.
Result<MaxUnpoolDesc> read_max_unpool(const Node& node, const Shape& x, const Shape& indices,
                                      const std::optional<std::vector<int64_t>>& output_shape);

// CenterCropPad: the axes that the input `shape` speaks of, in its order; all where the attribute is left out.
// Errors: an axis out of range or repeated.
Result<std::vector<int>> read_crop_axes(const Node& node, int rank);

}  // namespace tenon
