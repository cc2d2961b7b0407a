// The shapes of a node's inputs, as the readers of operator families take them.
#pragma once

#include <cstddef>
#include <optional>
#include <vector>

#include "ops/shape_inference_context.h"

namespace tenon {

// An input that the operator does not have, or that the node leaves out. Node::input() of it is kNoValue.
inline constexpr size_t kNoInput = SIZE_MAX;

// One entry for each input of a node; nullopt where the input is absent, or where nothing is known of it.
template <typename T>
class PerInput {
 public:
  void push_back(std::optional<T> entry) { entries_.push_back(std::move(entry)); }
  size_t size() const { return entries_.size(); }
  // Null where there is none, also beyond the node's inputs.
  const T* find(size_t input) const { return input < entries_.size() && entries_[input] ? &*entries_[input] : nullptr; }

 private:
  std::vector<std::optional<T>> entries_;
};

using InputShapes = PerInput<Shape>;

// Of values whose shapes are known; nullopt for the others too.
InputShapes input_shapes(const Graph& graph, const Node& node);
// Errors: one of the first `count` inputs is absent; the message names the operator and the input.
Status require_shapes(const Node& node, const InputShapes& shapes, size_t count);

namespace infer {

// nullopt where the rank is not known.
using InputDims = PerInput<Dims>;

InputDims input_dims(const Context& context);
InputDims input_dims(const InputShapes& shapes);
Dims to_dims(const Shape& shape);
// Of dimensions that are all known.
Shape to_shape(const Dims& dims);

}  // namespace infer
}  // namespace tenon
