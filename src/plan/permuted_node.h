// An operator on tensors whose dimensions stand in another order.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "plan/pass_rewriter.h"

namespace tenon {

// A node that reads tensors before a Transpose instead of after it.
struct PermutedNode {
  std::vector<size_t> data;  // the inputs whose order of dimensions changes
  // False: the outputs are the same, because what is left of the dimensions keeps its order.
  bool permutes_outputs = true;
  Node node;                                              // with changed attributes; inputs and outputs as before
  std::vector<std::pair<size_t, ConstantRef>> constants;  // inputs with a number an axis, which become these
};

// `node` reads tensors that Transpose made with `perm`: what it becomes on the Transpose's inputs. nullopt: it is an
// operator that cannot, or its axes are not known. Inputs in `data` have the rank of `perm`, or are numbers or
// constants that are broadcast (see PermutedInput).
std::optional<PermutedNode> permuted_node(const Rewriter& rewriter, const Node& node, std::span<const int64_t> perm);

// How an input in `data` gets the other order.
enum class PermutedInput {
  kSame,      // one number: it has no order
  kConstant,  // a constant of which one dimension at most is not 1: only its shape changes
  kTensor     // of the full rank: a Transpose, or what is before one
};
// nullopt: of another rank, or of an unknown one.
std::optional<PermutedInput> permuted_input(const Rewriter& rewriter, ValueId id, size_t rank);

}  // namespace tenon
