#include "ops/input_shapes.h"

#include "base/status.h"

namespace tenon {

InputShapes input_shapes(const Graph& graph, const Node& node) {
  InputShapes shapes;
  for (ValueId id : node.inputs) {
    const bool known = id != kNoValue && graph.value(id).fully_known();
    shapes.push_back(known ? std::optional(graph.value(id).shape()) : std::nullopt);
  }
  return shapes;
}

Status require_shapes(const Node& node, const InputShapes& shapes, size_t count) {
  for (size_t i = 0; i < count; ++i) TENON_INVALID_IF(shapes.find(i) == nullptr, "{} lacks input {}.", node.op_type, i);
  return {};
}

namespace infer {

InputDims input_dims(const Context& context) {
  InputDims dims;
  for (size_t i = 0; i < context.node().inputs.size(); ++i)
    dims.push_back(context.ranked(i) ? std::optional(context.dims(i)) : std::nullopt);
  return dims;
}

InputDims input_dims(const InputShapes& shapes) {
  InputDims dims;
  for (size_t i = 0; i < shapes.size(); ++i) {
    const Shape* shape = shapes.find(i);
    dims.push_back(shape != nullptr ? std::optional(to_dims(*shape)) : std::nullopt);
  }
  return dims;
}

Dims to_dims(const Shape& shape) {
  Dims dims;
  dims.reserve(shape.rank());
  for (int64_t dim : shape.dims()) dims.push_back(number(dim));
  return dims;
}

Shape to_shape(const Dims& dims) {
  Shape shape;
  for (const Dim& dim : dims) shape.push_back(dim.value);
  return shape;
}

}  // namespace infer
}  // namespace tenon
