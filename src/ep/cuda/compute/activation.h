// The epilogues of docs/internal-operators.md: an activation, its numbers, and where a residual is added.
#pragma once

#include <string>

#include "ep/cuda/compute/activation_kind.h"
#include "graph/graph.h"

namespace tenon::cuda {

struct Epilogue {
  Activation activation = Activation::kNone;
  float alpha = 0, beta = 0;
  bool residual_after = false;
};

// The attributes of a tenon.Conv, tenon.MatMul or tenon.Activation. Errors: kUnsupported for another name.
Result<Epilogue> read_epilogue(const Node& node);
// The activation of `x` ("$0") as an expression over float, for generated kernels.
std::string activation_expression(const Epilogue& epilogue, const std::string& x);

}  // namespace tenon::cuda
