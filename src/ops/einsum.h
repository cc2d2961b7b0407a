// Einsum 12: sums of products over named dimensions.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "ops/input_shapes.h"

namespace tenon {

// The part that is known before every size is.
struct EinsumForm {
  std::vector<std::string> inputs;  // as in EinsumDesc
  std::string output;
  std::map<char, Dim> sizes;
};
// Errors: those of read_einsum. All inputs have known ranks.
Result<EinsumForm> read_einsum_form(const Node& node, const infer::InputDims& inputs);

struct EinsumDesc {
  // One letter for each dimension of each input; '0' is the last dimension of an ellipsis, '1' the one before it.
  std::vector<std::string> inputs;
  std::string output;
  // By letter. An input whose dimension is 1 repeats.
  std::map<char, int64_t> sizes;
};

// Errors: an input is absent, an equation that is malformed or does not fit the ranks, sizes of one letter that differ
// and are not 1, an output with a letter twice or with one that no input has.
Result<EinsumDesc> read_einsum(const Node& node, const InputShapes& shapes);

}  // namespace tenon
