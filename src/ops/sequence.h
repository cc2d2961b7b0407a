// Sequences and optionals: SequenceConstruct, SequenceEmpty, SequenceInsert, SequenceErase, SequenceAt, SequenceLength,
// SplitToSequence, ConcatFromSequence, Optional, OptionalHasElement and OptionalGetElement of ONNX (opsets 11 to 28).
#pragma once

#include <cstdint>
#include <vector>

#include <tenon/types.h>

#include "base/status.h"
#include "graph/graph.h"
#include "ops/axes.h"

namespace tenon {

// The index that a node counts from the end when negative. `size` elements there are, and one more place to insert at.
// Errors: an index out of range, with both numbers.
Result<int64_t> wrap_sequence_index(int64_t index, int64_t size, bool inserts);

// SplitToSequence without a second input: parts of one, which lose the axis unless it is kept.
struct SplitToSequenceDesc {
  AxisSpan span;
  bool keep_axis = true;
};
Result<SplitToSequenceDesc> read_split_to_sequence(const Node& node, const Shape& x);
// The parts' lengths, by the second input: one number for all parts but the last, or a list. Errors: a length that is
// not positive, a sum other than the axis' length, more parts than the axis can have.
Result<std::vector<int64_t>> sequence_split_sizes(std::span<const int64_t> split, bool is_scalar, int64_t length);

struct ConcatFromSequenceDesc {
  int64_t axis = 0;
  bool new_axis = false;
};
ConcatFromSequenceDesc read_concat_from_sequence(const Node& node);

// The nodes of each SequenceMap of `graph`, and of the graphs in it, become a Loop over the sequence: its body reads an
// element of each sequence, and appends what the model's body makes of them. The graph's types are inferred. True if
// there was one: then types have to be inferred anew. Errors: a body that does not fit its node.
Result<bool> expand_sequence_maps(Graph& graph);

}  // namespace tenon
