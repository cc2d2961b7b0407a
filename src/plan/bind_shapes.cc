#include "plan/bind_shapes.h"

namespace tenon {

Status check_input_shapes(const Graph& graph, std::span<const Shape> shapes) {
  for (size_t i = 0; i < graph.inputs.size(); ++i) {
    const Value& value = graph.value(graph.inputs[i]);
    const Shape& shape = shapes[i];
    if (!value.has_rank) continue;
    TENON_INVALID_IF(value.dims.size() != shape.dims().size(),
                     "Input \"{}\" has rank {} (shape {}), but the model declares rank {} ({}).", value.name,
                     shape.rank(), shape.to_string(), value.dims.size(), value.type_text());
    for (int axis = 0; axis < shape.rank(); ++axis) {
      const Dim& dim = value.dims[axis];
      TENON_INVALID_IF(dim.known() && dim.value != shape[axis],
                       "Dimension {} of input \"{}\" is {} (shape {}), but the model declares {} ({}).", axis,
                       value.name, shape[axis], shape.to_string(), dim.value, value.type_text());
    }
  }
  return {};
}

void set_input_shapes(Graph& graph, std::span<const Shape> shapes) {
  for (Value& value : graph.values) {
    if (value.constant) continue;
    value.has_rank = false;
    value.dims.clear();
  }
  for (size_t i = 0; i < graph.inputs.size(); ++i) graph.value(graph.inputs[i]).set_shape(shapes[i]);
}

}  // namespace tenon
