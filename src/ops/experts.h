// Mixtures of experts of com.microsoft: MoE, and QMoE with weights of few bits. A router chooses some experts for each
// token; an expert is two products with an activation between them, and perhaps a gate.
#pragma once

#include "ops/input_shapes.h"

namespace tenon {

// One product of each expert: Y = X * B transposed + bias, B [n,k].
struct ExpertWeights {
  size_t weights = kNoInput, scales = kNoInput, bias = kNoInput, zeros = kNoInput;
  int64_t n = 0, k = 0;
  int64_t bits = 0;  // of an element, the first in the lowest bits of a byte; 0: float32
  // Elements along K with a scale and perhaps a zero point of their own, which is 2^(bits - 1) where no input has it.
  int64_t block_size = 0, blocks = 1;

  bool present() const { return weights != kNoInput; }
  int64_t row_bytes() const { return bits == 0 ? 4 * k : k * bits / 8; }
  int64_t zero_row_bytes() const { return (blocks * bits + 7) / 8; }
};

struct ExpertsDesc {
  enum class Activation : uint8_t { kRelu, kGelu, kSilu, kSwiglu, kIdentity };
  int64_t tokens = 0, hidden = 0, inner = 0, experts = 0;
  int64_t chosen = 1;       // experts of a token
  bool normalised = false;  // the shares of a token's experts add up to 1
  Activation activation = Activation::kRelu;
  float alpha = 1, beta = 0, limit = 0;  // of kSwiglu
  // kSwiglu: gates and values come from one product; beside each other, or the values behind all gates.
  bool fused = false, halves = false;
  ExpertWeights first, second, third;    // third: a gate, where there is one
  size_t router = 1, shares = kNoInput;  // shares: what mixes the chosen experts, if not the router's numbers
};

// Errors: shapes that do not fit together, attributes out of range, a kind of quantisation other than integers.
Result<ExpertsDesc> read_experts(const Node& node, const InputShapes& shapes);

}  // namespace tenon
