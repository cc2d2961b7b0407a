// Float32 inside of models of 16-bit floats: what exporters write around operators whose kernels compute in float32
// anyway.
#pragma once

#include "graph/graph.h"

namespace tenon::cuda {

// Casts to float32, a norm by the root mean square or a softmax, and a cast back become that operator on 16-bit floats;
// so a model without other float32 is planned as one of 16 bits (region.h).
void join_half_islands(Graph& graph);

}  // namespace tenon::cuda
