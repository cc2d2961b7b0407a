// Operators that read or write by index: Gather, GatherElements, GatherND, Scatter, ScatterElements, ScatterND, OneHot,
// Compress of ONNX (opsets 1 to 24), and LookupOrDefault (docs/reference/internal-operators.md).
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include <tenon/types.h>

#include "base/status.h"
#include "graph/graph.h"
#include "ops/axes.h"

namespace tenon {

// Gather and LookupOrDefault: y[outer, i, inner] = x[outer, indices[i], inner].
struct GatherDesc {
  AxisSpan span;      // of x
  int64_t count = 0;  // of indices
  Shape output;
};
// Errors: a scalar; an axis out of range; a rank above Shape::kMaxRank.
Result<GatherDesc> read_gather(const Node& node, const Shape& x, const Shape& indices);
// The axis in [0, rank). Errors: a scalar; an axis out of range.
Result<int> read_gather_axis(const Node& node, int rank);

// GatherElements, Scatter and ScatterElements: the axis in [0, rank of x). Errors: an axis out of range; indices whose
// rank is not that of x, or that are longer than x in a dimension other than the axis.
Result<int> read_elements_axis(const Node& node, const Shape& x, const Shape& indices);

// GatherND and ScatterND: the last dimension of the indices is a tuple, which names a slice of x.
struct GatherNdDesc {
  int batch_rank = 0;  // the leading dimensions that x and the indices share
  int width = 0;       // elements of a tuple
  int64_t batch = 1;   // product of the shared dimensions
  int64_t tuples = 1;  // of one batch
  int64_t slice = 1;   // elements that a tuple names
  Shape output;        // of GatherND; of ScatterND's updates
};
// Errors: scalar indices; batch_dims or a tuple that does not fit x; batches that differ; a rank above
// Shape::kMaxRank. A tuple of no elements, which names all of x, is for ScatterND only.
Result<GatherNdDesc> read_gather_nd(const Node& node, const Shape& x, const Shape& indices);

enum class ScatterReduction : uint8_t { kNone, kAdd, kMul, kMax, kMin };
std::string_view scatter_reduction_name(ScatterReduction reduction);
// Of ScatterElements and ScatterND; Scatter has none. Errors: an unknown name.
Result<ScatterReduction> read_scatter_reduction(const Node& node);

// The axis that OneHot inserts, in [0, rank of the indices]. Errors: an axis out of range.
Result<int> read_one_hot_axis(const Node& node, int indices_rank);
// The shape of OneHot's result. Errors: a depth below 1; a rank above Shape::kMaxRank; too many elements.
Result<Shape> one_hot_shape(const Shape& indices, int axis, int64_t depth);

// Compress and Unique: the axis in [0, rank); nullopt where the tensor counts as flat. Errors: an axis out of range.
Result<std::optional<int>> read_compress_axis(const Node& node, int rank);

// Unique 11.
struct UniqueDesc {
  std::optional<int> axis;  // in [0, rank); none: the tensor counts as flat
  bool sorted = true;       // not in the order in which they appear
};
Result<UniqueDesc> read_unique(const Node& node, int rank);

}  // namespace tenon
