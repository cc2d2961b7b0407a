// Activations of epilogues, as host and device know them.
#pragma once

#include <cstdint>

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

}  // namespace tenon::cuda
