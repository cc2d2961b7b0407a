// The epilogue of docs/internal-operators.md as kernels carry it. Includes nothing that a simd/*.cc may not (isa.h).
#pragma once

#include <cstdint>

namespace tenon::cpu {

enum class Activation : uint8_t {
  kNone,
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

// What happens to a product before it is stored: y = act(z + residual), or act(z) + residual.
struct Epilogue {
  Activation activation = Activation::kNone;
  bool residual_after = false;
  // clip: low and high; leaky_relu: alpha; hardsigmoid: alpha and beta; hardswish: x * clip(alpha * x + beta, 0, 1)
  float alpha = 0;
  float beta = 0;
};

}  // namespace tenon::cpu
