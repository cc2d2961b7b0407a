// QuantizeLinear and DequantizeLinear: what kernels write for them, and constants that are dequantised on the host.
#pragma once

#include <string>

#include "base/status.h"
#include "graph/graph.h"

namespace tenon::cuda {

// Of $0 by the scale $1 and, where there is one, the zero point $2: rounded to even, saturated.
Result<std::string> quantize_expression(DataType to, bool zero_point);
std::string dequantize_expression(DataType from, bool zero_point);

// Whether the node is a DequantizeLinear of constants that dequantize_on_host() can compute; looks at no elements.
bool can_dequantize_on_host(const Graph& graph, const Node& node);
Result<ConstantRef> dequantize_on_host(const Graph& graph, const Node& node);
// The same graph, with such nodes' outputs as constants. The nodes stay.
Graph with_dequantized_weights(const Graph& graph);

}  // namespace tenon::cuda
