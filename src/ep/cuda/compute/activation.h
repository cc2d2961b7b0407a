// Activations of epilogues (docs/internal-operators.md), with the numbers that the kernels know them by.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "graph/graph.h"

namespace tenon::cuda {

enum class Activation : int32_t {
  kNone = 0,
  kRelu,
  kClip,
  kLeakyRelu,
  kSigmoid,
  kHardSigmoid,
  kHardSwish,
  kSilu,
  kGelu,
  kGeluTanh,
  kTanh,
};

struct Epilogue {
  Activation activation = Activation::kNone;
  float alpha = 0, beta = 0;
  bool residual_after = false;
};

// The attributes of a tenon.Conv, tenon.MatMul or tenon.Activation. Errors: kUnsupported for another name.
Result<Epilogue> read_epilogue(const Node& node);

}  // namespace tenon::cuda
