// The elementwise operators' loops; see sim_ops.h.
#pragma once

#include "ep/sim/sim_ops.h"

namespace tenon::sim {

Result<std::vector<SimTensor>> infer_same(const SimInputs& inputs, const SimAttributes& attributes);
Result<std::vector<SimTensor>> infer_broadcast(const SimInputs& inputs, const SimAttributes& attributes);

Status run_relu(const SimRun& run, const SimAttributes& attributes);
Status run_sigmoid(const SimRun& run, const SimAttributes& attributes);
Status run_tanh(const SimRun& run, const SimAttributes& attributes);
Status run_neg(const SimRun& run, const SimAttributes& attributes);
Status run_identity(const SimRun& run, const SimAttributes& attributes);
Status run_add(const SimRun& run, const SimAttributes& attributes);
Status run_sub(const SimRun& run, const SimAttributes& attributes);
Status run_mul(const SimRun& run, const SimAttributes& attributes);
Status run_div(const SimRun& run, const SimAttributes& attributes);

}  // namespace tenon::sim
