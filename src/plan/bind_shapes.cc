#include "plan/bind_shapes.h"

namespace tenon {

namespace {

// The first dimension before {input, axis} with the same symbol; {-1, -1} if there is none.
std::pair<int, int> earlier_use(const Graph& graph, std::span<const Shape> shapes, int input, int axis,
                                const std::string& symbol) {
  for (int i = 0; i <= input; ++i) {
    const Value& value = graph.value(graph.inputs[static_cast<size_t>(i)]);
    const int end = i == input ? axis : shapes[static_cast<size_t>(i)].rank();
    if (!value.has_rank) continue;
    for (int j = 0; j < end; ++j) {
      if (!value.dims[static_cast<size_t>(j)].known() && value.dims[static_cast<size_t>(j)].symbol == symbol) {
        return {i, j};
      }
    }
  }
  return {-1, -1};
}

}  // namespace

Status check_input_shapes(const Graph& graph, std::span<const Shape> shapes) {
  for (size_t i = 0; i < graph.inputs.size(); ++i) {
    const Value& value = graph.value(graph.inputs[i]);
    const Shape& shape = shapes[i];
    if (!value.has_rank) continue;
    TENON_INVALID_IF(value.dims.size() != static_cast<size_t>(shape.rank()),
                     "Input \"{}\" has rank {} (shape {}), but the model declares rank {} ({}).", value.name,
                     shape.rank(), shape.to_string(), value.dims.size(), value.type_text());
    for (int axis = 0; axis < shape.rank(); ++axis) {
      const Dim& dim = value.dims[static_cast<size_t>(axis)];
      if (dim.known()) {
        TENON_INVALID_IF(dim.value != shape[axis],
                         "Dimension {} of input \"{}\" is {} (shape {}), but the model declares {} ({}).", axis,
                         value.name, shape[axis], shape.to_string(), dim.value, value.type_text());
        continue;
      }
      if (dim.symbol.empty()) continue;
      const auto [input, other] = earlier_use(graph, shapes, static_cast<int>(i), axis, dim.symbol);
      if (input < 0) continue;
      const int64_t expected = shapes[static_cast<size_t>(input)][other];
      TENON_INVALID_IF(expected != shape[axis],
                       "Dimension \"{}\" is {} in input \"{}\" (axis {}), but {} in input \"{}\" (axis {}).",
                       dim.symbol, expected, graph.value(graph.inputs[static_cast<size_t>(input)]).name, other,
                       shape[axis], value.name, axis);
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
