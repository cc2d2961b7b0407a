// Constant folding, in one forward sweep: shape inference, evaluation, removal of identities.
#pragma once

#include <functional>
#include <vector>

#include "base/status.h"
#include "graph/graph.h"

namespace tenon {

// Computes a node whose present inputs are all constant; one constant for each output, null where the output is absent.
// A failure leaves the node as it is: it is reported, or never reached, at run time.
using EvaluateNode = std::function<Result<std::vector<ConstantRef>>(const Graph& graph, const Node& node)>;

struct FoldOptions {
  // A DequantizeLinear of constant bytes stays, so that products may compute with them.
  bool keep_bytes = false;
  // A node that reads a value of unknown size stays as it is, and is not inferred: it is planned later (cut.h).
  bool only_known_sizes = false;
};

// Infers every node in order (infer_node). Nodes whose outputs follow from constants or from known shapes disappear and
// their outputs become constants (Shape, Size, chains over them, and what `evaluate` computes: at most 16 MiB, or not
// more than its inputs; never random operators). Nodes that change nothing for the shapes at hand (Identity, Reshape to
// the same shape, Add of 0, ...) disappear too; Squeeze, Unsqueeze and Flatten of known shapes become Reshape; an If on
// a constant becomes its branch.
//
// Run at load with symbols, and by the planner on its copy of the graph with the numbers of one signature.
// Graph outputs keep their values (ids and names): one that a constant feeds becomes a constant value; one that is the
// same as a graph input stays an Identity.
// `evaluate` may be empty: then only shapes and identities are folded.
Status fold_constants(Graph& graph, const EvaluateNode& evaluate, FoldOptions options = {});

// Of all that only what `evaluate` computes from constants, for EPs, which are shown the other nodes as they are in the
// model: an EP without a kernel for such a node would leave it and its readers apart, and one with a kernel would run
// it each time. Quantisations stay, which EPs look for, and so does what an output of the graph is.
Status fold_before_claims(Graph& graph, const EvaluateNode& evaluate);

}  // namespace tenon
