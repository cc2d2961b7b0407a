// The elementwise operators' loops; see sim_ops.h.
#pragma once

#include "ep/sim/sim_ops.h"

namespace tenon::sim {

Result<std::vector<SimTensor>> infer_same(const SimInputs& inputs, const Node& node);
Result<std::vector<SimTensor>> infer_broadcast(const SimInputs& inputs, const Node& node);

Status run_relu(const SimRun& run, const Node& node);
Status run_sigmoid(const SimRun& run, const Node& node);
Status run_tanh(const SimRun& run, const Node& node);
Status run_neg(const SimRun& run, const Node& node);
Status run_identity(const SimRun& run, const Node& node);
Status run_add(const SimRun& run, const Node& node);
Status run_sub(const SimRun& run, const Node& node);
Status run_mul(const SimRun& run, const Node& node);
Status run_div(const SimRun& run, const Node& node);

}  // namespace tenon::sim
