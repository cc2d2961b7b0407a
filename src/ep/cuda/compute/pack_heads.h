// One product for the queries, keys and values of an attention over caches.
#pragma once

#include "graph/graph.h"

namespace tenon::cuda {

// com.microsoft's GroupQueryAttention whose queries, keys and values are three products of the same rows with constant
// weights (MatMul, or MatMulNBits; each may have a constant row added) gets its packed form: one product with the
// weights beside each other. Three products of many rows take twice as long as one of all their columns.
void pack_heads(Graph& graph);

}  // namespace tenon::cuda
