// Scan of ONNX (opsets 8 to 25). If and Loop have no attribute but their bodies.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/status.h"
#include "graph/graph.h"

namespace tenon {

// How one scan input is cut into slices, or one scan output is put together.
struct ScanAxis {
  int64_t axis = 0;      // as the node has it: counted from the end where negative
  bool reverse = false;  // from the last slice to the first
};
struct ScanDesc {
  bool batched = false;    // version 8: input 0 has lengths, dimension 0 of all others is a batch
  size_t first_state = 0;  // the input that is the first state
  size_t states = 0;
  std::vector<ScanAxis> inputs;   // scan inputs; they follow the states
  std::vector<ScanAxis> outputs;  // scan outputs; they follow the states
};
// `inputs` of the node's inputs are the operator's own (plan/control_flow.h adds others). Errors: num_scan_inputs that
// does not fit them.
Result<ScanDesc> read_scan(const Node& node, size_t inputs);

}  // namespace tenon
