// Folding of what computes shapes while dimensions are open: `x.reshape(x.shape[0], -1, 8, 64)` is a Shape, a Gather, a
// Concat and more in a model, for each place that asks.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <vector>

#include "graph/graph.h"
#include "plan/fold.h"
#include "plan/symbolic_sizes.h"

namespace tenon {

// Knows the integers that shapes decide, by value, in a forward sweep over a graph. Nodes are shown in order, each
// first to `use_sizes`, then to shape inference, to `refine_dims`, and to `note_elements`. Threads: one.
class FoldSizes {
 public:
  // Gives the open dimensions of inputs and captures a symbol. `evaluate` moves elements. Both outlive the object.
  FoldSizes(Graph& graph, const EvaluateNode& evaluate);
  // Whether a graph has open dimensions: else there is nothing to do.
  static bool has_open_inputs(const Graph& graph);

  // A computed shape that Reshape or Expand reads becomes a constant where 0, -1 or 1 say the same of the other input.
  void use_sizes(Node& node);
  // Dimensions of the outputs that inference left open: a sum, product or element that is known, else a symbol of the
  // value's own, so that its readers agree about it.
  void refine_dims(const Node& node);
  // Remembers the elements of the (only) output. A constant if all are numbers, else `same` is an earlier value with
  // the same elements, if there is one: the node is not needed then.
  ConstantRef note_elements(const Node& node, ValueId& same);

 private:
  using Elements = std::vector<SizeId>;

  // Empty: nothing is known.
  Elements elements(ValueId id);
  Elements moved(const Node& node);
  Elements computed(const Node& node);
  SizeId product(std::span<const Dim> dims);
  bool writes_output(const Node& node) const;
  void compare_parts(const Node& node);
  void use_in_reshape(Node& node);
  void use_in_expand(Node& node);
  std::vector<Dim> dims_of_output(const Node& node);
  std::vector<Dim> reshaped_dims(const Node& node);
  std::vector<Dim> expanded_dims(const Node& node);
  std::vector<Dim> sliced_dims(const Node& node);
  // `unshared`: trailing dimensions that do not take part, as a matrix product's last two.
  std::vector<Dim> broadcast_dims(const Node& node, size_t unshared);

  Graph& graph_;
  const EvaluateNode& evaluate_;
  SymbolicSizes sizes_;
  PerValue<Elements> elements_;
  PerValue<bool> is_output_;
  std::map<std::vector<int64_t>, ValueId> first_with_;  // by type, dimensions and elements
};

}  // namespace tenon
