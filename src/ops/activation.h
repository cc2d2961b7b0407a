// The functions of activation_list.h as enums, and the epilogue of docs/reference/internal-operators.md. Includes
// nothing that a simd/*.cc or device code may not.
#pragma once

#include <cstdint>

#include "ops/activation_list.h"

namespace tenon {

#define TENON_ENUMERATOR_(Name, ...) k##Name,
enum class Activation : int32_t { TENON_ACTIVATIONS(TENON_ENUMERATOR_) };
// The activations come first, with the same numbers.
enum class Unary : int32_t { TENON_FUNCTIONS(TENON_ENUMERATOR_) };
#undef TENON_ENUMERATOR_

#define TENON_ONE_(...) +1
inline constexpr int kActivationCount = 0 TENON_ACTIVATIONS(TENON_ONE_);
// Unary functions below this number have a vector loop in the CPU EP.
inline constexpr int kVectorFunctionCount = kActivationCount TENON_VECTOR_FUNCTIONS(TENON_ONE_);
inline constexpr int kUnaryCount = 0 TENON_FUNCTIONS(TENON_ONE_);
#undef TENON_ONE_

constexpr Unary unary_of(Activation activation) { return static_cast<Unary>(activation); }

// A product before it is stored becomes act(z + residual), or act(z) + residual. alpha and beta are the parameters of
// the activation's formula.
struct Epilogue {
  Activation activation = Activation::kNone;
  float alpha = 0, beta = 0;
  bool residual_after = false;
};

}  // namespace tenon
