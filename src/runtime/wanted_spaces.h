// Where the EPs of a session want the inputs and outputs of its model.
#pragma once

#include <vector>

#include <tenon/session.h>

#include "graph/graph.h"
#include "runtime/session_eps.h"

namespace tenon {

struct WantedSpaces {
  std::vector<ValueSpace> inputs, outputs;
};

// Where the reader of an input, or the maker of an output, wants it. An input that the CPU EP reads too is wanted in
// plain host memory. Errors: an EP that names no memory of its own.
Result<WantedSpaces> wanted_spaces(const Graph& graph, const SessionEps& eps, const SpaceTable& table);

}  // namespace tenon
